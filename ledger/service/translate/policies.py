"""Evidence policies, to the domain and back."""

from collections.abc import Iterator

from ledger.domain.document_commands import PutEvidencePolicy
from ledger.domain.model import Caller, Classification, Role
from ledger.domain.policies import ESTIMATED, STATUS_PROOF, EvidencePolicy, Rule
from ledger.service.translate.evidence import KINDS, SOURCES
from ledger.service.translate.fields import InvalidField, identifier, named, number, under
from ledger.v1 import evidence_pb2 as pb
from ledger.v1 import hold_pb2

MAX_RULES = 64
LEAST_STATUS, MOST_STATUS = 400, 599
CLASSIFICATION_OF = {
    classification: pb.EvidenceClassification.Value(f"EVIDENCE_CLASSIFICATION_{classification}")
    for classification in Classification
}
SOURCE_OF = {source: hold_pb2.EvidenceSource.Value(f"EVIDENCE_SOURCE_{source}") for source in SOURCES.values()}
KIND_OF = {kind: hold_pb2.NoCostKind.Value(f"NO_COST_KIND_{kind}") for kind in KINDS.values()}
REPORTER_OF = {role: pb.Reporter.Value(f"REPORTER_{role.name}") for role in (Role.GATEWAY, Role.FINANCE)}
_REPORTERS = {int(number): role for role, number in REPORTER_OF.items()}
_STANDINGS = {
    int(CLASSIFICATION_OF[standing]): standing
    for standing in (Classification.AUTHORITATIVE, Classification.CORROBORATING, Classification.ESTIMATE)
}


def put_evidence_policy(request: pb.PutEvidencePolicyRequest, caller: Caller) -> PutEvidencePolicy:
    key = identifier(request.idempotency_key, "idempotency_key")
    with under("policy"):
        return PutEvidencePolicy(caller, key, read_policy(request.policy, caller.tenant))


def read_policy(message: pb.EvidencePolicy, tenant: str) -> EvidencePolicy:
    """The policy of a request. Raises InvalidField."""
    if message.version or message.digest:
        raise InvalidField("version" if message.version else "digest", "is given by the server: leave it out")
    if not 1 <= len(message.rules) <= MAX_RULES:
        raise InvalidField("rules", f"must be 1 to {MAX_RULES}")
    rules = tuple(rule for i, said in enumerate(message.rules) for rule in _rules(said, f"rules[{i}]"))
    if len({(rule.evidence, rule.role) for rule in rules}) != len(rules):
        raise InvalidField("rules", "must have one for each pair of evidence and reporter at most")
    return EvidencePolicy(tenant, identifier(message.provider, "provider"), 0, rules)


def _rules(message: pb.EvidenceRule, path: str) -> Iterator[Rule]:
    standing = named(message.standing, f"{path}.standing", _STANDINGS)
    evidence = _evidence(message, path, standing)
    statuses = tuple(
        number(status, f"{path}.rejecting_statuses", LEAST_STATUS, MOST_STATUS) for status in message.rejecting_statuses
    )
    if bool(statuses) != (evidence == STATUS_PROOF):
        raise InvalidField(f"{path}.rejecting_statuses", f"must be given for {STATUS_PROOF}, and for it alone")
    if len(set(statuses)) != len(statuses):
        raise InvalidField(f"{path}.rejecting_statuses", "must be each once")
    if not message.reporters:
        raise InvalidField(f"{path}.reporters", "must be given: REPORTER_GATEWAY, REPORTER_FINANCE or both")
    for reporter in message.reporters:
        yield Rule(evidence, named(reporter, f"{path}.reporters", _REPORTERS), standing, statuses)


def _evidence(message: pb.EvidenceRule, path: str, standing: Classification) -> str:
    """The source or kind that a rule is about."""
    about = message.WhichOneof("evidence")
    if about is None:
        raise InvalidField(f"{path}.evidence", "must be given: source or no_cost")
    if about == "source":
        source = named(message.source, f"{path}.source", SOURCES)
        if source == ESTIMATED:
            raise InvalidField(f"{path}.source", f"must not be {ESTIMATED}: it is an estimate by whatever policy")
        return source
    if standing is Classification.ESTIMATE:
        raise InvalidField(f"{path}.standing", "must be AUTHORITATIVE or CORROBORATING: a proof is no estimate")
    return named(message.no_cost, f"{path}.no_cost", KINDS)


def write_policy(message: pb.EvidencePolicy, policy: EvidencePolicy) -> None:
    """A rule for each pair of evidence and reporter, in the order of the document."""
    message.provider = policy.provider
    message.version = policy.version
    message.digest = policy.digest.hex()
    for rule in sorted(policy.rules):
        said = message.rules.add(reporters=[REPORTER_OF[rule.role]], standing=CLASSIFICATION_OF[rule.standing])
        said.rejecting_statuses.extend(sorted(rule.statuses))
        if rule.evidence in SOURCE_OF:
            said.source = SOURCE_OF[rule.evidence]
        else:
            said.no_cost = KIND_OF[rule.evidence]
