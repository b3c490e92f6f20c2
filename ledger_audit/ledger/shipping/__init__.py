"""
Ships the files of one writer from node-local storage to the ledger's root, in a process of its own.

The root shows a prefix of what the writer told, in the order of its telling, at every moment; a
copy holds the bytes of the segment that it is a copy of, and no others.
"""
