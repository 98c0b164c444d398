"""Workers that do what time asks for. Each is one page: start, stop, tick."""
