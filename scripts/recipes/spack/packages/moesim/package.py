# SPDX-License-Identifier: Apache-2.0
# spack repo add scripts/recipes/spack; spack develop --path $PWD moesim@=main; spack install moesim. Not tried yet.
from spack.package import *


class Moesim(MesonPackage):
    """Simulator of mixture-of-experts placement and communication policies on GPU clusters."""

    license("Apache-2.0")
    version("main")

    variant("simgrid", default=True, description="the fidelity simgrid")
    variant("mpi", default=True, description="plans run on CPUs over MPI")
    variant("cuda", default=False, description="plans run on GPUs over NCCL")

    depends_on("cxx", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    for library in ("cli11", "fmt", "cpp-httplib", "libzip", "nlohmann-json", "openssl", "protozero", "pugixml",
                    "simdjson", "snappy", "sqlite", "xxhash", "yaml-cpp", "zlib-api", "zstd"):
        depends_on(library)
    depends_on("boost+graph")
    depends_on("simgrid@3.32:", when="+simgrid")
    depends_on("mpi", when="+mpi")
    depends_on("cuda", when="+cuda")
    depends_on("nccl", when="+cuda")

    def meson_args(self):
        features = {"simgrid": "+simgrid", "mpi": "+mpi", "cuda": "+cuda", "nccl": "+cuda"}
        state = {name: "enabled" if self.spec.satisfies(variant) else "disabled" for name, variant in features.items()}
        return [f"-D{name}={value}" for name, value in state.items()] + ["-Dunity=on", "-Dtests=false"]
