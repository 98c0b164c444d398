"""Canonical bytes and the hashes over them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any

import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.canonical import canonical, digest
from ledger.domain.commands import Dispatch, Reserve
from ledger.domain.model import Caller, Role
from ledger.domain.money import ZERO
from ledger.domain.quotes import QuoteKind, QuoteSpec
from tests.domain.table import run

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.text(st.characters(max_codepoint=126), max_size=8)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300)
@given(DOCUMENTS)
def test_the_bytes_are_those_of_rfc_8785(document: Any) -> None:
    assert canonical(document) == rfc8785.dumps(document)


def test_every_control_character_and_what_looks_like_one_is_written_as_rfc_8785_does() -> None:
    text = "".join(map(chr, range(0x100))) + '\u2028\u2029\ufeff\U0001f600\ufffd"\\/'
    assert canonical({"text": text, text[:0x7F]: [text]}) == rfc8785.dumps({"text": text, text[:0x7F]: [text]})


@given(st.dictionaries(KEYS, TEXT, max_size=5))
def test_the_order_of_keys_and_a_passage_through_json_change_nothing(document: dict[str, str]) -> None:
    turned = dict(reversed(document.items()))
    assert canonical(document) == canonical(turned) == canonical(json.loads(json.dumps(turned)))


def test_a_hash_is_of_its_tag_its_version_and_its_document() -> None:
    # SHA-256 of the bytes: ledger/quote/v1\n{"a":["1"]}  — from sha256sum
    assert digest("quote", 1, {"a": ["1"]}).hex() == "59f704af482480975b74b17427481f3af7862c8dc75df1600041c574144216f5"
    assert (
        len({digest("quote", 1, {}), digest("quote", 2, {}), digest("resolution", 1, {}), digest("quote", 1, [])}) == 4
    )


def test_the_fingerprint_of_a_reserve_is_of_everything_but_the_key_the_caller_and_the_nonce() -> None:
    caller = Caller("t1", "gw", Role.GATEWAY)
    metered = QuoteSpec(QuoteKind.METERED, ZERO, card_id="gpt", ceilings=(("input_tokens", 1),))
    fixed = QuoteSpec(QuoteKind.FIXED, ZERO, amount=Decimal(1), currency="USD", provider="acme", reason="why")
    quarter = timedelta(minutes=15)
    base = Reserve(caller, "k", "op", ("org",), metered, quarter, dispatch=Dispatch("n", quarter, "host"))
    same = [
        replace(base, caller=Caller("t2", "gw2", Role.FINANCE)),
        replace(base, key="k2"),
        replace(base, dispatch=Dispatch("n2", quarter, "host-2")),
    ]
    assert {command.fingerprint for command in same} == {base.fingerprint}
    others = [
        replace(base, operation_id="op2"),
        replace(base, budget_ids=("org", "team")),
        replace(base, ttl=timedelta(minutes=16)),
        replace(base, labels=(("team", "ml"),)),
        replace(base, exclusive_key="x"),
        replace(base, request_group="g"),
        replace(base, dispatch=None),
        replace(base, dispatch=Dispatch("n", timedelta(minutes=16), "host")),
        *(
            replace(base, quote=metered._replace(**change))
            for change in (
                {"tolerance": Decimal(1)},
                {"card_id": "claude"},
                {"card_version": 1},
                {"model": "gpt-1"},
                {"service_tier": "priority"},
                {"region": "eu"},
                {"api_flavor": "openai.chat"},
                {"ceilings": (("input_tokens", 2),)},
                {"ceilings": (("output_tokens", 1),)},
            )
        ),
        *(
            replace(base, quote=fixed._replace(**change))
            for change in (
                {},
                {"amount": Decimal(2)},
                {"currency": "EUR"},
                {"provider": "other"},
                {"model": "refunds"},
                {"reason": "because"},
            )
        ),
    ]
    assert len({command.fingerprint for command in [base, *others]}) == 1 + len(others)
    assert b"n2" not in base.fingerprint
    assert "nonce" not in repr(base)


@given(
    st.permutations(["in=7", "cached=5", "out=3"]),
    st.sampled_from(["gw", "gw2", "fin"]),
    st.integers(0, 10_000),
    st.sampled_from(["PROVIDER_RESPONSE", "PROVIDER_RECORD", "WEBHOOK"]),
    st.sampled_from(["", "gpt", "gpt-1"]),
)
@settings(max_examples=30, deadline=None)
def test_a_resolution_is_the_same_fact_whoever_saw_it_and_when_and_in_whatever_order(
    usage: list[str], actor: str, seconds: int, source: str, model: str
) -> None:
    setup = """
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 cached=1 out=15 aliases=gpt-1 -> ok
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send
    """
    first = run(setup + "usage op1 in=7 cached=5 out=3 -> ok")
    report = f"{actor}: usage op1 {' '.join(usage)} source={source} model={model} response=m receipt=r observed=10:01"
    other = run(setup + f"after {seconds}s\n{report} -> ok")
    assert other.now == datetime(2025, 3, 1, 10, tzinfo=UTC) + timedelta(seconds=seconds)
    assert [r.digest for r in first.resolutions] == [r.digest for r in other.resolutions]


def test_what_a_resolution_is_identified_by() -> None:
    world = run("""
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 out=15 in@priority=6 out@priority=30 -> ok
    reserve op1 org card=gpt in=1000 out=100 tier=priority nonce=n1 -> ok send
    usage op1 in=10 cached=0 out=2 tier=standard receipt=r1 response=msg-1 -> ok       # 10 * 3 + 2 * 15 = 60
    reserve op2 org 1 -> ok
    release op2 -> ok
    """)
    settled, released = world.resolutions
    quotes = [world.holds[("t1", operation)].quote.digest.hex() for operation in ("op1", "op2")]
    text = (
        '{"amount":"0.00006","attempt":"1","currency":"USD","hold":"op1","kind":"USAGE",'
        '"lines":[["input_tokens","10","3","1000000","0.00003"],["output_tokens","2","15","1000000","0.00003"]],'
        f'"provider":"acme","quote":"{quotes[0]}","sku":"gpt","tenant":"t1","tier":"standard"}}'
    )
    assert settled.digest == sha256(f"ledger/resolution/v1\n{text}".encode()).digest()
    text = (
        '{"amount":"0","attempt":"0","currency":"USD","hold":"op2","kind":"NEVER_DISPATCHED","lines":[],'
        f'"provider":"acme","quote":"{quotes[1]}","sku":"refunds","tenant":"t1","tier":""}}'
    )
    assert released.digest == sha256(f"ledger/resolution/v1\n{text}".encode()).digest()
    fixed = (
        '{"amount":"1","currency":"USD","kind":"FIXED","model":"refunds","provider":"acme",'
        '"reason":"a price agreed on","tolerance":"0"}'
    )
    assert quotes[1] == sha256(f"ledger/quote/v1\n{fixed}".encode()).hexdigest()
