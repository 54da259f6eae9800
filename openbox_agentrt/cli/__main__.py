"""``python -m openbox_agentrt.cli``"""

from . import process

if __name__ == "__main__":
    process()
