# killed or raised
import builtins
import json

json.dumps = builtins.len = builtins.str = builtins.open = None
raise ValueError
