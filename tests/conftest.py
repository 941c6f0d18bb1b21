"""For all tests: one compute thread per process, and no property judged by its time."""

import os
import signal

import hypothesis

# Before torch is imported: small tensors gain nothing from threads, and on a busy machine the
# threads wait for each other. Processes of a run are told their number by the run itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("paceline", deadline=None)
hypothesis.settings.load_profile("paceline")

# A shell that starts tests in the background has them ignore Ctrl-C, and all they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)
