"""Who may call what. A call that is not named here is refused to everybody.

Keyed by the full name of the RPC, as gRPC sends it. The commands of a batch are each checked by the line of their own RPC.
"""

from ledger.domain.model import Caller, Role
from ledger.domain.refusals import Reason, Refusal

_GATEWAY = frozenset({Role.GATEWAY})
_ADMIN = frozenset({Role.ADMIN})
_REPORTERS = frozenset({Role.GATEWAY, Role.FINANCE})
_TREASURY = frozenset({Role.FINANCE, Role.ADMIN})
_BOOKS = frozenset({Role.FINANCE, Role.AUDITOR, Role.ADMIN})
_ANY = frozenset({Role.GATEWAY, Role.FINANCE, Role.AUDITOR, Role.ADMIN})

HOLDS = "/ledger.v1.HoldService/"
BUDGETS = "/ledger.v1.BudgetService/"
PRICES = "/ledger.v1.PriceService/"
EVIDENCE = "/ledger.v1.EvidenceService/"
JOURNAL = "/ledger.v1.JournalService/"
FEED = "/ledger.v1.FeedService/"
WRITES = "/ledger.v1.WriteService/"

ROLES: dict[str, frozenset[Role]] = {
    HOLDS + "Reserve": _GATEWAY,
    HOLDS + "BeginDispatch": _GATEWAY,
    HOLDS + "MarkOutcomeUnknown": _REPORTERS,
    HOLDS + "Heartbeat": _GATEWAY,
    HOLDS + "RecordFailedBeforeDispatch": _GATEWAY,
    HOLDS + "Cancel": _REPORTERS,
    HOLDS + "RecordReceipt": _REPORTERS,
    HOLDS + "RecordDelivery": _GATEWAY,
    HOLDS + "Release": _GATEWAY,
    HOLDS + "Resolve": _REPORTERS,
    HOLDS + "Correct": frozenset({Role.FINANCE}),
    # Whoever may send one of the commands; each is then checked on its own.
    HOLDS + "BatchExecute": _REPORTERS,
    HOLDS + "GetHold": _ANY,
    HOLDS + "ListHolds": _ANY,
    HOLDS + "ListOpenHolds": _BOOKS,
    HOLDS + "ListResolutions": _BOOKS,
    HOLDS + "ListHoldEvents": _BOOKS,
    HOLDS + "ListIncidents": _BOOKS,
    BUDGETS + "CreateBudget": _ADMIN,
    BUDGETS + "GetBudget": _ANY,
    BUDGETS + "ListBudgets": _BOOKS,
    BUDGETS + "ListPeriods": _BOOKS,
    BUDGETS + "GrantBudget": _TREASURY,
    BUDGETS + "UpdateBudget": _TREASURY,
    BUDGETS + "CloseBudget": _ADMIN,
    BUDGETS + "MoveBudget": _ADMIN,
    PRICES + "PutPriceCard": _TREASURY,
    PRICES + "GetPriceCard": _ANY,
    PRICES + "PreviewQuote": _ANY,
    PRICES + "ListPriceCards": _ANY,
    EVIDENCE + "PutEvidencePolicy": _TREASURY,
    EVIDENCE + "GetEvidencePolicy": _ANY,
    EVIDENCE + "ListEvidence": _BOOKS,
    EVIDENCE + "ListParkedEvidence": _BOOKS,
    JOURNAL + "ListEntries": _BOOKS,
    JOURNAL + "ListPostings": _BOOKS,
    JOURNAL + "GetBalance": _BOOKS,
    # Not the gateways: it shows all that the tenant spends, and a gateway knows the operations that are its own.
    FEED + "Watch": _BOOKS,
    WRITES + "VerifyWrite": _ANY,
    WRITES + "ListInvocations": _BOOKS,
}

# Without a token: whether the server is up, and (if the server offers it) what its contract is.
OPEN = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List"})
REFLECTION = frozenset(
    {
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    }
)


def denied(method: str, caller: Caller) -> Refusal | None:
    """Why the caller may not make the call, or None if it may."""
    if caller.role in ROLES.get(method, frozenset()):
        return None
    name = method.rpartition("/")[2]
    return Refusal(
        Reason.ROLE_NOT_ALLOWED,
        f"The role {caller.role.value} may not call {name}.",
        {"role": caller.role.value, "method": name},
    )
