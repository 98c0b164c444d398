"""The commands about holds: hold show, hold list."""
