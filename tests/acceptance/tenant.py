"""One tenant of a running ledger, and short ways to say what its gateway, finance and admin do. All calls are real."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import grpc
import psycopg
from google.protobuf.field_mask_pb2 import FieldMask

from ledger.v1 import budget_pb2, hold_pb2, journal_pb2, money_pb2, price_pb2
from tests.acceptance.harness import LiveLedger, Stubs, reason_of, usd

Answer = TypeVar("Answer")

RESPONSE = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE
RECORD = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RECORD
STATEMENT = hold_pb2.EVIDENCE_SOURCE_STATEMENT
ESTIMATE = hold_pb2.EVIDENCE_SOURCE_GATEWAY_ESTIMATE


@dataclass
class Tenant:
    """Every call has a new idempotency key unless `key` is given. Amounts are in USD, and fixed ones at the provider 'psp'."""

    live: LiveLedger
    name: str
    _keys: Iterator[int] = field(default_factory=count)

    @cached_property
    def gateway(self) -> Stubs:
        return self.live.stubs(self.name, "gateway")

    @cached_property
    def finance(self) -> Stubs:
        return self.live.stubs(self.name, "finance")

    @cached_property
    def admin(self) -> Stubs:
        return self.live.stubs(self.name, "admin")

    def key(self) -> str:
        return f"key-{next(self._keys)}"

    # --- budgets and cards -----------------------------------------------------------------------------------------

    def budget(
        self,
        budget_id: str = "team",
        limit: str | None = "100",
        parent: str = "",
        currency: str = "USD",
        **settings: Any,
    ) -> Any:
        return self.admin.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key=self.key(),
                budget_id=budget_id,
                parent_id=parent,
                currency=currency,
                limit=limit,
                **settings,
            )
        )

    def limit(self, limit: str | None, budget_id: str = "team") -> Any:
        """Changes the limit; None takes it away."""
        return self.finance.budgets.UpdateBudget(
            budget_pb2.UpdateBudgetRequest(
                idempotency_key=self.key(),
                budget_id=budget_id,
                update_mask=FieldMask(paths=["limit"]),
                limit=limit,
            )
        )

    def grant(self, amount: str, reference: str, budget_id: str = "team", key: str = "") -> Any:
        return self.finance.budgets.GrantBudget(
            budget_pb2.GrantBudgetRequest(
                idempotency_key=key or self.key(), budget_id=budget_id, amount=usd(amount), reference=reference
            )
        )

    def card(self, card_id: str, provider: str, *rates: str, max_in: int = 0, max_out: int = 0) -> Any:
        """`rates` such as "input_tokens 3", "web_searches 10 per 1000", "input_tokens 6 above 2000 in priority"."""
        return self.put_rates(card_id, provider, *[rate.split() for rate in rates], max_in=max_in, max_out=max_out)

    def put_rates(self, card_id: str, provider: str, *rates: list[str], max_in: int = 0, max_out: int = 0) -> Any:
        """The same, in words that may be anything."""
        card = price_pb2.PriceCard(
            card_id=card_id,
            provider=provider,
            model=card_id,
            currency="USD",
            rates=[_rate(rate) for rate in rates],
            max_input_tokens=max_in,
            max_output_tokens=max_out,
        )
        return self.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key=self.key(), card=card))

    def balances(self, budget_id: str = "team") -> dict[str, str]:
        """The balances that are not zero, by name."""
        found = self.finance.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id=budget_id)).budget.balances
        names = ("authority", "available", "held", "unknown", "spent", "deficit")
        return {name: getattr(found, name) for name in names if getattr(found, name) != "0"}

    # --- holds -----------------------------------------------------------------------------------------------------

    def reserve(
        self,
        operation: str,
        quote: str | hold_pb2.QuoteSpec,
        budget: str = "team",
        *,
        send: bool = False,
        key: str = "",
        **fields: Any,
    ) -> Any:
        """A fixed amount, or a quote; with `send` born DISPATCHING."""
        return self.gateway.holds.Reserve(self.reservation(operation, quote, budget, send=send, key=key, **fields))

    def reservation(
        self,
        operation: str,
        quote: str | hold_pb2.QuoteSpec,
        budget: str = "team",
        *,
        send: bool = False,
        key: str = "",
        **fields: Any,
    ) -> hold_pb2.ReserveRequest:
        request = hold_pb2.ReserveRequest(
            idempotency_key=key or self.key(),
            operation_id=operation,
            budget_ids=[budget],
            quote=fixed(quote) if isinstance(quote, str) else quote,
            **fields,
        )
        if send:
            request.begin_dispatch = True
            request.dispatch.nonce = nonce_of(operation)
        return request

    def patiently(self, request: hold_pb2.ReserveRequest) -> Any:
        """The answer of a server that has just been started again."""
        return self.gateway.holds.Reserve(request, wait_for_ready=True)

    def dispatch(self, operation: str, nonce: str = "0123456789abcdef", key: str = "") -> Any:
        return self.gateway.holds.BeginDispatch(
            hold_pb2.BeginDispatchRequest(
                idempotency_key=key or self.key(),
                operation_id=operation,
                dispatch=hold_pb2.Dispatch(nonce=nonce),
            )
        )

    def unknown(self, operation: str, observation: str = "time-out") -> Any:
        return self.gateway.holds.MarkOutcomeUnknown(
            hold_pb2.MarkOutcomeUnknownRequest(
                idempotency_key=self.key(), operation_id=operation, observation=observation
            )
        )

    def release(self, operation: str) -> Any:
        return self.gateway.holds.Release(hold_pb2.ReleaseRequest(idempotency_key=self.key(), operation_id=operation))

    def charge(self, operation: str, amount: str, *, by: str = "gateway", accept: str = "", **fields: Any) -> Any:
        """Evidence that the provider of a fixed quote charged the amount."""
        usage = _usage(**{"provider": "psp", "charged": usd(amount)} | fields)
        return self._resolve(operation, by, usage=usage, accept_overrun_reason=accept)

    def report(self, operation: str, flavor: str, document: Mapping[str, Any], **fields: Any) -> Any:
        """Evidence that is a provider's usage document: {"model": …, "usage": {…}}."""
        seen = hold_pb2.ProviderUsage(api_flavor=flavor, json=json.dumps(document))
        usage = _usage(**{"provider": flavor.partition(".")[0], "provider_usage": seen} | fields)
        return self._resolve(operation, "gateway", usage=usage)

    def count(self, operation: str, provider: str, **quantities: int) -> Any:
        """Evidence that is usage in the ledger's own buckets."""
        usage = _usage(provider=provider, buckets=hold_pb2.BucketUsage(quantities=quantities))
        return self._resolve(operation, "gateway", usage=usage)

    def never_sent(self, operation: str, nonce: str = "", *, by: str = "gateway") -> Any:
        """The proof of the process that sends with `reserve(send=True)`, unless another nonce is given."""
        proof = hold_pb2.NoCostProof(
            kind=hold_pb2.NO_COST_KIND_NEVER_SENT,
            cause=hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED,
            nonce=nonce or nonce_of(operation),
        )
        return self._resolve(operation, by, no_cost=proof)

    def _resolve(self, operation: str, by: str, **fields: Any) -> Any:
        key = fields["usage"].response_id if "usage" in fields else ""
        stubs: Stubs = getattr(self, by)
        request = hold_pb2.ResolveRequest(idempotency_key=key or self.key(), operation_id=operation, **fields)
        return stubs.holds.Resolve(request)

    def bill(self, operation: str, amount: str, *, digest: str = "", key: str = "", **fields: Any) -> Any:
        """A correction by what a statement of a fixed quote's provider says; of what is in force, unless a digest is given."""
        accept = fields.pop("accept", "")
        usage = _usage(**{"provider": "psp", "charged": usd(amount), "source": STATEMENT} | fields)
        return self.correct(operation, digest=digest, key=key, usage=usage, accept_overrun_reason=accept)

    def correct(self, operation: str, *, digest: str = "", key: str = "", **fields: Any) -> Any:
        given: dict[str, Any] = {
            "idempotency_key": key or self.key(),
            "operation_id": operation,
            "digest_in_force": digest or self.hold(operation).resolution.digest,
            "reason": "the bill of March",
        }
        return self.finance.holds.Correct(hold_pb2.CorrectRequest(**given | fields))

    def revisions(self, operation: str) -> list[hold_pb2.Resolution]:
        request = hold_pb2.ListResolutionsRequest(operation_id=operation)
        return list(self.finance.holds.ListResolutions(request).resolutions)

    def hold(self, operation: str) -> hold_pb2.Hold:
        found: hold_pb2.Hold = self.finance.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=operation)).hold
        return found

    def stands(self, operation: str) -> str:
        """How a hold stands: its state, and what it was settled at."""
        hold = self.hold(operation)
        name = hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")
        return f"{name} {hold.resolution.amount.amount}".strip()

    def in_state(self, state: str) -> list[str]:
        request = hold_pb2.ListHoldsRequest(state=hold_pb2.HoldState.Value(f"HOLD_STATE_{state}"), page_size=1000)
        return [hold.operation_id for hold in self.finance.holds.ListHolds(request).holds]

    def group(self, request_group: str) -> dict[str, str]:
        """The operations of a request group, and how each hold stands."""
        found = self.finance.holds.ListHolds(hold_pb2.ListHoldsRequest(request_group=request_group)).holds
        return {hold.operation_id: self.stands(hold.operation_id) for hold in found}

    def entries(self, operation: str) -> list[str]:
        """The kinds of the journal entries of an operation, in their order."""
        found = self.finance.journal.ListEntries(journal_pb2.ListEntriesRequest(operation_id=operation)).entries
        return [journal_pb2.EntryKind.Name(entry.kind).removeprefix("ENTRY_KIND_") for entry in found]

    def postings(self, account: str, budget_id: str = "team") -> list[str]:
        """What was posted to an account of a budget: debits positive, credits negative."""
        request = journal_pb2.ListPostingsRequest(book_id=f"{budget_id}#0", page_size=1000)
        number = journal_pb2.Account.Value(f"ACCOUNT_{account}")
        found = self.finance.journal.ListPostings(request).postings
        return [posting.amount.amount for posting in found if posting.account == number]

    def incidents(self, operation: str) -> list[tuple[str, dict[str, str]]]:
        request = hold_pb2.ListIncidentsRequest(operation_id=operation)
        return [
            (hold_pb2.IncidentKind.Name(incident.kind).removeprefix("INCIDENT_KIND_"), dict(incident.detail))
            for incident in self.finance.holds.ListIncidents(request).incidents
        ]


def at_once(*calls: Callable[[], Answer]) -> list[Answer | str]:
    """The answers of calls that are made at the same time, or the reason why one was refused."""

    def told(call: Callable[[], Answer]) -> Answer | str:
        try:
            return call()
        except grpc.RpcError as error:
            return reason_of(error)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(told, calls))


@contextmanager
def fault(acme: Tenant, table: str) -> Iterator[None]:
    """Until the block ends no row of this tenant can be written to the table."""
    with psycopg.connect(acme.live.database_url, autocommit=True) as connection:
        name = f"fault_of_{acme.name}"
        connection.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'a fault of the disk'; END $$;"
            f" CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW"
            f" WHEN (NEW.tenant = '{acme.name}') EXECUTE FUNCTION {name}()".encode()
        )
        try:
            yield
        finally:
            connection.execute(f"DROP FUNCTION {name} CASCADE".encode())


@contextmanager
def closed_port() -> Iterator[str]:
    """The URL of a port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def provider_socket() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The URL of a provider that takes a request and never answers; and how to wait until the request is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as open_connections:
        listener.settimeout(30)

        def request_arrives() -> bytes:
            connection, _ = listener.accept()
            return open_connections.enter_context(connection).recv(65536)

        yield f"http://127.0.0.1:{listener.getsockname()[1]}", request_arrives


def nonce_of(operation: str) -> str:
    """What the process that sends keeps in its memory."""
    return f"nonce-of-{operation}-0123456789"


def fixed(amount: str, currency: str = "USD", tolerance: str = "", reason: str = "agreed") -> hold_pb2.QuoteSpec:
    money = money_pb2.Money(amount=amount, currency=currency)
    return hold_pb2.QuoteSpec(
        fixed=hold_pb2.FixedQuote(amount=money, provider="psp", reason=reason), tolerance=tolerance
    )


def metered(card_id: str, model: str = "", service_tier: str = "", **ceilings: int) -> hold_pb2.QuoteSpec:
    return hold_pb2.QuoteSpec(
        metered=hold_pb2.MeteredQuote(card_id=card_id, model=model, service_tier=service_tier, ceilings=ceilings)
    )


def _usage(**fields: Any) -> hold_pb2.UsageEvidence:
    given: dict[str, Any] = {"source": RESPONSE, "adapter": "test", "adapter_revision": "1"}
    return hold_pb2.UsageEvidence(**given | fields)


def _rate(words: list[str]) -> price_pb2.Rate:
    bucket, price, *rest = words
    said = dict(zip(rest[::2], rest[1::2], strict=True))
    return price_pb2.Rate(
        bucket=bucket,
        price=price,
        service_tier=said.get("in", ""),
        above_input_tokens=int(said.get("above", "0")),
        per=int(said.get("per", "0")),
    )
