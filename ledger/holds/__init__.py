"""The commands about holds and what happens to the books: hold show, hold list, watch."""
