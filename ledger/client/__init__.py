"""The client: typed stubs over one channel, the caller's token, and the reason of a refusal."""

from ledger.client.connection import Client, Refused, connect, error_reason

__all__ = ["Client", "Refused", "connect", "error_reason"]
