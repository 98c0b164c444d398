"""Provider shapes in, disjoint billable buckets out; price catalogues in, price cards out. Pure: no I/O, no clock.

A gateway keeps `usage_document` of a response, or `merge_stream` of a streamed one, as its evidence; the service reads
that with `normalize` before the rules see it. The buckets are stored beside the document, so that a later release of
the extracting library changes nothing that is in the books.
"""

from ledger.usage.normalized import Normalized, normalize
from ledger.usage.shapes import FLAVORS
from ledger.usage.streams import merge_stream, usage_document

__all__ = ["FLAVORS", "Normalized", "merge_stream", "normalize", "usage_document"]
