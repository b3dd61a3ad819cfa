"""The distributed trainer: recipes run on an unforked verl (Ray, FSDP2, vLLM), with our rollouts and our credit.

Everything that touches verl's internals is in this folder. Modules that need no verl: ``translate`` (recipe -> verl's
settings), ``scope`` (what this engine can run), ``keys`` (the names verl knows), ``scaling`` (memory and cost),
``seam`` (episodes -> what verl trains on), ``doctor``. The others are imported in Ray's processes only. Importing this
package loads neither verl nor torch.
"""

from __future__ import annotations
