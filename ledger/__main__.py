"""`python -m ledger` is `spend-ledger`."""

import sys

from ledger.cli import main

sys.exit(main())
