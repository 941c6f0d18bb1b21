"""Says every word that it hears again, in two pieces; ends when it hears `end`."""

import sys
import time

for line in sys.stdin:
    if "end" in line:
        break
    sys.stdout.write(line[:3])
    sys.stdout.flush()
    time.sleep(0.01)
    sys.stdout.write(line[3:])
    sys.stdout.flush()
