"""Pages by key: the next page begins after the last key of this one, so rows that come or go in between shift nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Key: TypeAlias = tuple[str, ...]


class Page(NamedTuple, Generic[T]):
    """Some items in order, and the key after which the next page begins: texts, None on the last page.

    `key` gives the key of an item, for who takes fewer of them.
    """

    items: tuple[T, ...]
    next: Key | None
    key: Callable[[T], Key]


def page(rows: Sequence[Any], limit: int, item: Callable[[Any], T], key: Callable[[T], Key]) -> Page[T]:
    """A page of at most `limit` of the rows, of which one more was asked for."""
    items = tuple(item(row) for row in rows[:limit])
    return Page(items, key(items[-1]) if len(rows) > limit else None, key)
