"""
Expected streams, worked out from what decides the order: no run is needed for them.

Each kind gives its stream in pieces, in its global order: frames with the columns of PIECE.
"""
