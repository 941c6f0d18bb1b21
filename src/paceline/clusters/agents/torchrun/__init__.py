"""Real machines on each of which torchrun starts the same command: no key, no agent to install."""
