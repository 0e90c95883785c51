#!/usr/bin/env python3
"""Creates and spends a transaction over gRPC: grpc_client.py HOST:PORT

`utxokeep serve` with a node store listens there. The messages are made from the .proto files by
protoc when the program starts; a program of yours makes them once, when it is built.
"""

import pathlib
import subprocess
import sys
import tempfile

import grpc

PROTO = pathlib.Path(__file__).resolve().parent.parent / "crates" / "proto" / "proto"


def messages(directory):
    """The messages of the node store."""
    source = PROTO / "utxokeep" / "v1" / "txstore.proto"
    subprocess.run(["protoc", f"-I{PROTO}", f"--python_out={directory}", source], check=True)
    sys.path.insert(0, str(directory))
    from utxokeep.v1 import txstore_pb2

    return txstore_pb2


def main(address):
    with tempfile.TemporaryDirectory() as directory, grpc.insecure_channel(address) as channel:
        pb = messages(directory)

        def call(method, request, response):
            path = f"/utxokeep.v1.TxStore/{method}"
            encode, decode = type(request).SerializeToString, response.FromString
            return channel.unary_unary(path, encode, decode)(request, timeout=10)

        def transaction(txid, parent):
            output = pb.Output(satoshis=5_000, script=b"\x51")
            outpoint = pb.OutPoint(txid=parent, vout=0)
            spent = pb.Input(outpoint=outpoint, sequence=0xFFFFFFFF, previous=output)
            made = pb.Transaction(txid=txid, version=2, inputs=[spent], outputs=[output])
            return pb.NewTransaction(transaction=made)

        parent = transaction(b"\x01" * 32, b"\xaa" * 32)
        request = pb.CreateRequest(transactions=[parent], height=101)
        [created] = call("Create", request, pb.CreateResponse).results
        print("parent:", created.WhichOneof("result"))
        for name, txid in (("first", b"\x02" * 32), ("second", b"\x03" * 32)):
            child = transaction(txid, b"\x01" * 32)
            request = pb.SpendAndCreateRequest(transaction=child, height=101)
            answer = call("SpendAndCreate", request, pb.SpendAndCreateResponse)
            print(f"{name} child:", answer.result.WhichOneof("result"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
