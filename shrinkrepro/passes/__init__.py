"""The passes, in the order in which they are applied."""

from shrinkrepro.passes.blocks import (
    drop_clauses,
    drop_conditions,
    drop_with_items,
    return_early,
    shorten_ranges,
    unwrap_blocks,
)
from shrinkrepro.passes.callables import apply_decorators, apply_lambdas, apply_partials
from shrinkrepro.passes.calls import (
    drop_arguments,
    function_to_method,
    keywords_to_positions,
    map_to_calls,
    method_to_operator,
    module_to_method,
)
from shrinkrepro.passes.classes import classes_to_bases, dissolve_classes, objects_to_functions, objects_to_parts
from shrinkrepro.passes.devices import (
    devices_to_cpu,
    drop_anomaly_mode,
    drop_seeds,
    full_precision,
    loaders_in_process,
    unwrap_models,
)
from shrinkrepro.passes.expressions import (
    drop_elements,
    drop_parentheses,
    expression_to_one,
    expression_to_part,
    slices_to_items,
)
from shrinkrepro.passes.files import drop_files, move_modules
from shrinkrepro.passes.functions import (
    drop_bases,
    drop_decorators,
    drop_defaults,
    drop_parameters,
    parameters_to_values,
)
from shrinkrepro.passes.gradients import detach_instead_of_no_grad
from shrinkrepro.passes.imports import canonical_imports, drop_unused_imports
from shrinkrepro.passes.inlining import inline_functions, inline_properties
from shrinkrepro.passes.inplace import out_of_place_elsewhere
from shrinkrepro.passes.layers import (
    bypass_calls,
    drop_layers,
    drop_schedulers,
    identity_layers,
    plain_backward,
    simplest_loss,
    simplest_optimizer,
    sum_before_backward,
)
from shrinkrepro.passes.loops import flatten_comprehensions, last_in_turn, run_through_less
from shrinkrepro.passes.nodes import call_named_by_node
from shrinkrepro.passes.shapes import equal_sizes, shorten_chains, shorten_sizes, shrink_numbers, simplest_view
from shrinkrepro.passes.statements import delete_statements, keep_what_ran, split_lines, strip_annotations, strip_layout
from shrinkrepro.passes.values import expression_to_tensor, expression_to_value
from shrinkrepro.passes.variables import (
    compute_once,
    drop_results,
    index_once,
    inline_next,
    inline_variables,
    merge_names,
    reuse_names,
    split_assignments,
)
from shrinkrepro.passes.yields import inline_generators, inline_managers, yields_to_returns

PASSES = (
    strip_layout,
    split_lines,
    loaders_in_process,
    keep_what_ran,
    drop_files,
    move_modules,
    equal_sizes,
    devices_to_cpu,
    unwrap_models,
    full_precision,
    drop_anomaly_mode,
    drop_seeds,
    strip_annotations,
    delete_statements,
    drop_clauses,
    unwrap_blocks,
    drop_with_items,
    shorten_ranges,
    drop_conditions,
    flatten_comprehensions,
    last_in_turn,
    run_through_less,
    return_early,
    expression_to_value,
    expression_to_tensor,
    drop_layers,
    bypass_calls,
    identity_layers,
    simplest_loss,
    plain_backward,
    sum_before_backward,
    simplest_optimizer,
    drop_schedulers,
    shorten_chains,
    simplest_view,
    shorten_sizes,
    drop_decorators,
    drop_bases,
    drop_defaults,
    drop_parameters,
    parameters_to_values,
    drop_arguments,
    drop_elements,
    drop_parentheses,
    slices_to_items,
    expression_to_part,
    expression_to_one,
    function_to_method,
    module_to_method,
    map_to_calls,
    method_to_operator,
    keywords_to_positions,
    call_named_by_node,
    detach_instead_of_no_grad,
    inline_functions,
    inline_properties,
    apply_decorators,
    apply_lambdas,
    apply_partials,
    yields_to_returns,
    inline_generators,
    inline_managers,
    dissolve_classes,
    classes_to_bases,
    objects_to_functions,
    objects_to_parts,
    split_assignments,
    inline_next,
    inline_variables,
    merge_names,
    reuse_names,
    index_once,
    drop_results,
    shrink_numbers,
    out_of_place_elsewhere,
    canonical_imports,
    drop_unused_imports,
    compute_once,
)

# These try much and mostly change nothing: each of their runs that comes before the last change of another is in vain.
LATE = frozenset(
    {
        expression_to_value,
        expression_to_tensor,
        bypass_calls,
        identity_layers,
        drop_arguments,
        expression_to_part,
        expression_to_one,
        function_to_method,
        module_to_method,
        call_named_by_node,
        inline_next,
        drop_results,
    }
)
