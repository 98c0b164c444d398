"""The part that all commands share: who asks, under which key, and what is compared when the key comes again."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ledger.domain.canonical import digest
from ledger.domain.model import Caller


@dataclass(frozen=True, slots=True)
class Keyed:
    """Not an ABC: `isinstance` costs three times as much for those, and is asked often."""

    NAME: ClassVar[str] = ""

    caller: Caller
    key: str
    fingerprint: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", FINGERPRINTS[FINGERPRINT_VERSION](self))

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What the command says, without caller and key; numbers as strings."""

    @property
    @abstractmethod
    def resource(self) -> str:
        """What the command is about: an operation, a budget, a price card or the provider of a policy."""

    @property
    def receipt_key(self) -> tuple[str, str, str, str]:
        """(tenant, actor, command, key): the scope in which a key is unique."""
        return (self.caller.tenant, self.caller.actor, self.NAME, self.key)


@dataclass(frozen=True, slots=True)
class OnHold(Keyed):
    """A command on the hold of one operation."""

    operation_id: str

    @property
    def resource(self) -> str:
        return self.operation_id

    @property
    def hold_key(self) -> tuple[str, str]:
        return (self.caller.tenant, self.operation_id)


@dataclass(frozen=True, slots=True)
class OnBudget(Keyed):
    """A command on one budget."""

    budget_id: str

    @property
    def resource(self) -> str:
        return self.budget_id

    @property
    def budget_key(self) -> tuple[str, str]:
        return (self.caller.tenant, self.budget_id)


def _fingerprint_1(command: Keyed) -> bytes:
    return digest(command.NAME, 1, command.content())


# How each version computes a fingerprint. A receipt is compared by the version that wrote it, so none is ever taken away.
FINGERPRINTS: Final[Mapping[int, Callable[[Keyed], bytes]]] = {1: _fingerprint_1}
FINGERPRINT_VERSION: Final = 1
