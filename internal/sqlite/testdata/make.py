# Makes the databases of this directory with the real SQLite: python3 make.py
import os
import sqlite3

for name in ["plain", "wal"]:
    for end in ["", "-wal", "-shm", "-journal"]:
        if os.path.exists(name + ".db" + end):
            os.remove(name + ".db" + end)

c = sqlite3.connect("plain.db", isolation_level=None)
c.execute("pragma page_size=512")
c.execute("create table t(a text not null, b integer)")
c.execute("insert into t values('one', 1), ('two', null)")
c.close()

# What counts of this one is in the log.
c = sqlite3.connect("wal.db", isolation_level=None)
c.execute("pragma page_size=512")
c.execute("pragma journal_mode=wal")
c.execute("create table t(a text not null, b integer)")
c.execute("insert into t values('one', 1), ('two', 2)")
c.execute("pragma wal_checkpoint(truncate)")
c.execute("update t set a='changed' where b=1")
c.execute("insert into t values(?, 3)", ("long" * 500,))
c.execute("delete from t where b=2")
os.remove("wal.db-shm")
os._exit(0)
