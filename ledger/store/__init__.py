"""PostgreSQL: tables, the loading of rows under locks, their saving in sets, and reads. The only SQL of the project."""
