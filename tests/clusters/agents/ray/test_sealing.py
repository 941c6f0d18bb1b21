"""What passes through Ray is of no use to others."""

import pytest

from paceline.clusters.agents.ray.sealing import Recipient, sealed_for
from paceline.clusters.agents.seal import SecretDiffers

TEXT = "a token that nobody else may read"


def test_the_recipient_reads_it_and_the_sealed_text_does_not_show_it():
    recipient = Recipient()
    sealed = sealed_for(recipient.public, TEXT, index=1)
    assert recipient.opened(sealed, index=1) == TEXT
    assert TEXT.encode().hex() not in sealed


def test_nobody_else_reads_it_and_it_is_not_for_another_node():
    recipient = Recipient()
    sealed = sealed_for(recipient.public, TEXT, index=1)
    with pytest.raises(SecretDiffers):
        Recipient().opened(sealed, index=1)
    with pytest.raises(SecretDiffers):
        recipient.opened(sealed, index=2)


@pytest.mark.parametrize(
    "change", [lambda s: s[:-2] + "00", lambda s: "00" * 32 + s[64:], lambda s: "zz"]
)
def test_what_was_changed_on_its_way_is_refused(change):
    recipient = Recipient()
    sealed = sealed_for(recipient.public, TEXT, index=0)
    with pytest.raises(SecretDiffers):
        recipient.opened(change(sealed), index=0)
