"""Cases that people must look at."""

from collections.abc import Mapping
from uuid import UUID

from ledger.domain.canonical import digest
from ledger.domain.model import Hold, Incident
from ledger.domain.work import Work


def incident_id(tenant: str, operation_id: str, kind: str, fact: str) -> UUID:
    """A case has its id from its fact: a report that is repeated does not open another."""
    named = {"tenant": tenant, "hold": operation_id, "kind": kind, "fact": fact}
    return UUID(bytes=digest("incident", 1, named)[:16])


def open_case(
    work: Work,
    tenant: str,
    operation_id: str,
    kind: str,
    fact: str,
    detail: Mapping[str, str],
    *,
    of_tenant: bool = False,
) -> UUID:
    """Opens the case about a fact, if it is not open; gives its id. One fact `of_tenant` is one case, whatever its operation."""
    opened = incident_id(tenant, "" if of_tenant else operation_id, kind, fact)
    work.decision.incidents.append(Incident(tenant, opened, kind, operation_id, work.now, detail))
    return opened


def open_incident(work: Work, hold: Hold, kind: str, fact: str, detail: Mapping[str, str]) -> UUID:
    """Opens a case about a fact of a hold."""
    return open_case(work, hold.tenant, hold.operation_id, kind, fact, detail)
