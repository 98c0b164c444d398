"""How a program calls the ledger.

`Ledger` (`LedgerSync` without an event loop) is the caller's client: plain values in, errors by reason, retries with the same
key, and `guard` around a call to a provider. `connect` gives the bare stubs of the contract, for programs that speak it themselves.
"""

from ledger.client.bridge import GuardSync, LedgerSync
from ledger.client.connection import Client, ErrorInfo, connect, error_reason
from ledger.client.errors import LedgerError, NotDone, NotPermitted, Refused, WriteOutcomeUnknown
from ledger.client.guard import Guard
from ledger.client.ledger import Ledger
from ledger.client.lines import Batching
from ledger.client.messages import dispatch, fixed_quote, metered_quote, usage_evidence
from ledger.client.retry import Backoff
from ledger.client.watching import watch

__all__ = [
    "Backoff",
    "Batching",
    "Client",
    "ErrorInfo",
    "Guard",
    "GuardSync",
    "Ledger",
    "LedgerError",
    "LedgerSync",
    "NotDone",
    "NotPermitted",
    "Refused",
    "WriteOutcomeUnknown",
    "connect",
    "dispatch",
    "error_reason",
    "fixed_quote",
    "metered_quote",
    "usage_evidence",
    "watch",
]
