"""What can be put beside its earlier versions: a price card, and a policy about evidence."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ledger.domain.cards import PriceCard
from ledger.domain.keyed import Keyed
from ledger.domain.policies import EvidencePolicy


@dataclass(frozen=True, slots=True)
class PutPriceCard(Keyed):
    """Put a version of a price card beside the earlier ones. The card's own version is 0: it is given one."""

    NAME: ClassVar[str] = "PutPriceCard"

    card: PriceCard

    def content(self) -> dict[str, Any]:
        return {"card": self.card.card_id, "content": self.card.to_document()}

    @property
    def resource(self) -> str:
        return self.card.card_id


@dataclass(frozen=True, slots=True)
class PutEvidencePolicy(Keyed):
    """Put a version of a provider's policy beside the earlier ones. The policy's own version is 0: it is given one."""

    NAME: ClassVar[str] = "PutEvidencePolicy"

    policy: EvidencePolicy

    def content(self) -> dict[str, Any]:
        return {"provider": self.policy.provider, "content": self.policy.to_document()}

    @property
    def resource(self) -> str:
        return self.policy.provider
