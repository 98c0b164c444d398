"""Evidence of an operation, and the policies about providers."""

from uuid import UUID

from sqlalchemy import Connection, Text, cast, select

from ledger.domain.model import Evidence
from ledger.domain.policies import EvidencePolicy
from ledger.store.read.page import Key, Page, page
from ledger.store.records import evidence, evidence_policy
from ledger.store.rows import evidence_from, policy_from
from ledger.store.statements import columns_of

_p = evidence_policy.c


def list_evidence(
    connection: Connection, tenant: str, operation_id: str, *, limit: int, after: Key | None = None
) -> Page[Evidence]:
    """What was reported of an operation, oldest first. The key is (evidence_id,): ids begin with the time of receipt."""
    query = columns_of(evidence).where(evidence.c.tenant == tenant, evidence.c.operation_id == operation_id)
    if after is not None:
        query = query.where(evidence.c.evidence_id > UUID(after[0]))
    rows = connection.execute(query.order_by(evidence.c.evidence_id).limit(limit + 1)).all()
    return page(rows, limit, lambda row: evidence_from(tuple(row)), lambda item: (str(item.evidence_id),))


def get_policy(connection: Connection, tenant: str, provider: str, version: int = 0) -> EvidencePolicy | None:
    """A version of the policy about a provider; 0 is the newest. None if there is none."""
    query = select(_p.tenant, _p.provider, _p.version, cast(_p.document, Text))
    query = query.where(_p.tenant == tenant, _p.provider == provider)
    if version:
        query = query.where(_p.version == version)
    row = connection.execute(query.order_by(_p.version.desc()).limit(1)).one_or_none()
    return None if row is None else policy_from(*row)
