# Copy this file to repos/spack_repo/builtin/packages/py_toruscast/package.py in spack-packages. The
# checksum is that of the release on PyPI.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyToruscast(PythonPackage):
    """Predict which process mapping of an MPI application or sharded model is fastest on a torus."""  # noqa: E501

    pypi = "toruscast/toruscast-0.1.0.tar.gz"

    license("BSD-3-Clause")

    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-click@8.2:")
        depends_on("py-jinja2@3.1:")
        depends_on("py-joblib@1.4:")
        depends_on("py-lazy-loader@0.4:")
        depends_on("py-networkx@3.2:")
        depends_on("py-numba@0.61:")
        depends_on("py-numpy@2.0:")
        depends_on("py-pandas@2.2:")
        depends_on("py-pyarrow@16:")
        depends_on("py-rich@13:")
        depends_on("py-scikit-learn@1.6:")
        depends_on("py-scipy@1.13:")
        depends_on("py-threadpoolctl@3.1:")
