"""A provider's receipt is bound once each way: one operation has it, and a hold has one."""

from uuid import UUID

from ledger.domain.incidents import open_incident
from ledger.domain.model import Hold
from ledger.domain.work import Work


def bring_receipt(work: Work, hold: Hold, receipt: str | None) -> tuple[str | None, UUID | None]:
    """The receipt that the hold has now that a report brought this one, and the incident that it is if it cannot have it.

    Evidence does not fail by its receipt: what another operation has stays there, and people look at it.
    """
    if receipt is None or receipt == hold.provider_receipt:
        return hold.provider_receipt, None
    holder = holder_of(work, hold, receipt)
    if holder != hold.operation_id:
        return hold.provider_receipt, bound_elsewhere(work, hold, receipt, holder)
    if hold.provider_receipt is not None:
        return hold.provider_receipt, accepted_twice(work, hold, hold.provider_receipt, receipt)
    return receipt, None


def holder_of(work: Work, hold: Hold, receipt: str) -> str:
    """The operation that has the receipt: the hold's own, if none has it."""
    return work.bound.get((hold.tenant, hold.quote.provider, receipt), hold.operation_id)


def bound_elsewhere(work: Work, hold: Hold, receipt: str, holder: str) -> UUID:
    """The incident of a receipt that another operation has: of the two calls at most one is its."""
    detail = {"provider_receipt": receipt, "bound_to": holder}
    return open_incident(work, hold, "RECEIPT_CONFLICT", f"{hold.quote.provider}#{receipt}", detail)


def accepted_twice(work: Work, hold: Hold, first: str, second: str) -> UUID:
    """The incident of a provider that accepted the call of one hold twice."""
    detail = {"provider_receipt": second, "provider_receipt_in_force": first}
    return open_incident(work, hold, "DOUBLE_ACCEPTANCE", second, detail)
