"""Who is believed about what: the policy by which evidence is classified, for each provider.

A policy is a document like a price card: its versions are never changed, and evidence names the one that classified it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from ledger.domain.canonical import digest
from ledger.domain.model import Classification, Role

ESTIMATED: Final = "GATEWAY_ESTIMATE"
STATUS_PROOF: Final = "REJECTED_BEFORE_EXECUTION"


class Rule(NamedTuple):
    """What evidence is worth from a role: AUTHORITATIVE, CORROBORATING or ESTIMATE.

    `evidence` is the source of usage or the kind of a proof. `statuses` are those by which the provider says that it did not
    begin, of REJECTED_BEFORE_EXECUTION alone.
    """

    evidence: str
    role: Role
    standing: Classification
    statuses: tuple[int, ...] = ()


@dataclass(frozen=True)
class EvidencePolicy:
    """The rules about one provider. Immutable; `digest` is over its content, provider and version left out."""

    tenant: str
    provider: str
    version: int
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        """The revision, as evidence names it."""
        return f"{self.provider}#{self.version}" if self.version else BUILT_IN_NAME

    def to_document(self) -> dict[str, Any]:
        """The content as JSON; numbers are strings, and what is not there takes no room."""
        return {"rules": [_written(rule) for rule in sorted(self.rules)]}

    @classmethod
    def from_document(cls, tenant: str, provider: str, version: int, document: Mapping[str, Any]) -> "EvidencePolicy":
        """The policy whose `to_document` gave the document."""
        rules = tuple(
            Rule(r["evidence"], Role(r["role"]), Classification(r["standing"]), tuple(map(int, r.get("statuses", ()))))
            for r in document["rules"]
        )
        return cls(tenant, provider, version, rules)

    @cached_property
    def digest(self) -> bytes:
        return digest("evidence-policy", 1, self.to_document())

    @cached_property
    def _rules(self) -> Mapping[tuple[str, Role], Rule]:
        return {(rule.evidence, rule.role): rule for rule in self.rules}

    def standing(self, evidence: str, role: Role) -> Classification:
        """What evidence is worth from the role; REJECTED if no rule names it. A gateway's own count is worth the same by each."""
        if evidence == ESTIMATED:
            return Classification.ESTIMATE
        rule = self._rules.get((evidence, role))
        return Classification.REJECTED if rule is None else rule.standing

    def says_not_begun(self, status: int, role: Role) -> bool:
        """Whether by the status, as the role reports it, the provider says that it did not begin.

        Without a rule any status does: the role has no say then, whatever it reports.
        """
        rule = self._rules.get((STATUS_PROOF, role))
        return rule is None or status in rule.statuses


def _written(rule: Rule) -> dict[str, Any]:
    written: dict[str, Any] = {
        "evidence": rule.evidence,
        "role": rule.role.value,
        "standing": rule.standing.value,
    }
    if rule.statuses:
        written["statuses"] = [str(status) for status in sorted(rule.statuses)]
    return written


BUILT_IN_NAME: Final = "#built-in/1"
_BOTH = (Role.GATEWAY, Role.FINANCE)
# Bad request, authentication, payment, permission, not found, too large, unprocessable, too many. A 5xx says nothing of the kind.
_REFUSED = (400, 401, 402, 403, 404, 413, 415, 422, 429)
_BELIEVED: tuple[tuple[str, tuple[Role, ...], tuple[int, ...]], ...] = (
    ("PROVIDER_RESPONSE", _BOTH, ()),
    ("PROVIDER_RECORD", _BOTH, ()),
    ("WEBHOOK", _BOTH, ()),
    ("STATEMENT", (Role.FINANCE,), ()),
    ("OPERATOR", (Role.FINANCE,), ()),
    ("NEVER_SENT", _BOTH, ()),
    (STATUS_PROOF, _BOTH, _REFUSED),
    ("GATEWAY_CACHE_HIT", _BOTH, ()),
)
# What holds for a provider about which the tenant has said nothing. Another content of it is another name.
BUILT_IN: Final = EvidencePolicy(
    "",
    "",
    0,
    tuple(
        Rule(evidence, role, Classification.AUTHORITATIVE, statuses)
        for evidence, roles, statuses in _BELIEVED
        for role in roles
    ),
)
