"""The run secret: where it is read from, and what it seals."""

import pytest

from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.clusters.agents.secret import take_secret
from paceline.errors import SpecError

SECRET = "0123456789abcdef" * 4


class TestTaking:
    def test_it_is_not_left_in_the_environment(self):
        environ = {"PACELINE_SECRET": SECRET, "HOME": "here"}
        assert take_secret(environ, "all is open") == SECRET
        assert environ == {"HOME": "here"}

    def test_a_file_that_only_its_owner_reads(self, tmp_path):
        file = tmp_path / "secret"
        file.write_text(f"{SECRET}\n")
        file.chmod(0o600)
        assert take_secret({"PACELINE_SECRET_FILE": str(file)}, "all is open") == SECRET

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    def test_a_file_that_others_may_read_is_refused(self, tmp_path, mode):
        file = tmp_path / "secret"
        file.write_text(SECRET)
        file.chmod(mode)
        with pytest.raises(SpecError, match=f"mode {mode:04o}.*chmod 600"):
            take_secret({"PACELINE_SECRET_FILE": str(file)}, "all is open")

    def test_without_one_it_is_said_how_to_make_and_pass_it(self):
        with pytest.raises(SpecError, match=r"openssl rand -hex 32.*PACELINE_SECRET_FILE="):
            take_secret({}, "all is open")

    def test_a_file_that_is_missing_is_named(self, tmp_path):
        with pytest.raises(SpecError, match=r"PACELINE_SECRET_FILE.*nowhere.*cannot be read"):
            take_secret({"PACELINE_SECRET_FILE": str(tmp_path / "nowhere")}, "all is open")

    def test_a_short_one_is_refused_and_not_shown(self):
        with pytest.raises(SpecError, match="has 6 characters, needs at least 32") as caught:
            take_secret({"PACELINE_SECRET": "hunter"}, "all is open")
        assert "hunter" not in str(caught.value)

    def test_two_are_refused(self):
        with pytest.raises(SpecError, match="give one of them"):
            take_secret({"PACELINE_SECRET": SECRET, "PACELINE_SECRET_FILE": "there"}, "all is open")


class TestSealing:
    seal = Seal(SECRET, "mine")

    def test_the_same_secret_opens_it(self):
        sealed = self.seal.close(b"an invitation", rank=1, key="here")
        assert b"invitation" not in sealed
        assert Seal(SECRET, "mine").open(sealed, rank=1, key="here") == b"an invitation"

    def test_it_never_looks_the_same(self):
        sealed = {self.seal.close(b"again", rank=1, key="here") for _ in range(3)}
        assert len(sealed) == 3

    @pytest.mark.parametrize(
        ("seal", "rank", "key"),
        [
            (Seal(SECRET[::-1], "mine"), 1, "here"),
            (Seal(SECRET, "another"), 1, "here"),
            (Seal(SECRET, "mine"), 2, "here"),
            (Seal(SECRET, "mine"), 1, "there"),
        ],
    )
    def test_nothing_else_opens_it(self, seal, rank, key):
        sealed = self.seal.close(b"an invitation", rank=1, key="here")
        with pytest.raises(SecretDiffers):
            seal.open(sealed, rank=rank, key=key)

    def test_what_was_changed_is_refused(self):
        sealed = self.seal.close(b"an invitation", rank=1, key="here")
        for place in range(len(sealed)):
            changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
            with pytest.raises(SecretDiffers):
                self.seal.open(changed, rank=1, key="here")

    @pytest.mark.parametrize("length", [0, 5, 12, 20])
    def test_what_is_too_short_is_refused(self, length):
        with pytest.raises(SecretDiffers):
            self.seal.open(bytes(length), rank=1, key="here")

    def test_it_is_not_printed(self):
        assert SECRET not in repr(self.seal)
