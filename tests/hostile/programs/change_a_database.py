# finished
import sqlite3

with sqlite3.connect('some.db') as connection:
    connection.execute('create table t (x)')
