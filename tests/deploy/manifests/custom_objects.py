"""Reads YAML objects and compares those of KEDA and of the Prometheus operator with the models of their versions.

Runs in the validators' environment. Prints a JSON object: the objects that were compared, and what is wrong with them.
A field that the model does not know is wrong: the API server would drop it without a word.
"""

import json
import sys
from typing import Any

import yaml
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as monitoring

MODELS = {
    ("keda.sh/v1alpha1", "ScaledObject"): keda.ScaledObject,
    ("monitoring.coreos.com/v1", "ServiceMonitor"): monitoring.ServiceMonitor,
}


def unknown(given: Any, understood: Any, path: str) -> list[str]:
    """Return the paths of what a model has not taken over."""
    if isinstance(given, dict) and isinstance(understood, dict):
        found = [f"{path}.{name} is unknown" for name in given if name not in understood]
        for name in given.keys() & understood.keys():
            found += unknown(given[name], understood[name], f"{path}.{name}")
        return found
    if isinstance(given, list) and isinstance(understood, list):
        pairs = enumerate(zip(given, understood, strict=True))
        return [each for at, (one, other) in pairs for each in unknown(one, other, f"{path}[{at}]")]
    return [] if given == understood else [f"{path} is {given!r}, understood as {understood!r}"]


def main() -> None:
    compared, problems = [], []
    for given in yaml.safe_load_all(sys.stdin):
        model = MODELS.get((given["apiVersion"], given["kind"])) if given else None
        if model is None:
            continue
        name = f"{given['kind']}/{given['metadata']['name']}"
        compared.append(name)
        try:
            understood = model.model_validate(given).model_dump(mode="json", by_alias=True, exclude_unset=True)
        except ValueError as problem:
            problems.append(f"{name}: {problem}")
        else:
            problems += unknown(given, understood, name)
    json.dump({"compared": compared, "problems": problems}, sys.stdout)


if __name__ == "__main__":
    main()
