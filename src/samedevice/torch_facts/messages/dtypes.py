"""Families: dtype kin, which is often taken for a placement mistake."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages import readings as read
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "operand-dtypes",
        Kind.DTYPE,
        T("Operands have different dtypes; the devices are fine", "Operanden haben verschiedene dtypes; die Geräte stimmen"),
        T("Matrix products and convolutions want one dtype; elementwise operations would promote, these do not", "Matrixprodukte und Faltungen verlangen einen dtype; elementweise Operationen gleichen an, diese nicht"),
        ("dtype-mismatch",),
        (
            wording("mat1 and mat2 must have the same dtype, but got {dt1:name} and {dt2:name}", "mat1 and mat2 must have the same dtype, but got Float and Half", "2.0"),
            wording("mat1 and mat2 must have the same dtype", "mat1 and mat2 must have the same dtype", "1.12"),
            wording("expected m1 and m2 to have the same dtype, but got: {dt1:name} != {dt2:name}", "expected m1 and m2 to have the same dtype, but got: float != c10::Half", "2.0"),
            wording("expected mat1 and mat2 to have the same dtype, but got: {dt1:name} != {dt2:name}", "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half", "2.0"),
            wording("self and mat2 must have the same dtype, but got {dt1:name} and {dt2:name}", "self and mat2 must have the same dtype, but got Half and Float", "2.1"),
            wording("expected scalar type {dt1:name} but found {dt2:name}", "expected scalar type Half but found Float", "1.0"),
            wording("Expected object of scalar type {dt1:name} but got scalar type {dt2:name} for argument #{number:int} '{arg}'", "Expected object of scalar type Float but got scalar type Double for argument #2 'mat2' in call to _th_mm", "1.0", "1.9"),
            wording("Expected object of type {t1:type} but found type {t2:type} for argument #{number:int} '{arg}'", "Expected object of type torch.DoubleTensor but found type torch.FloatTensor for argument #2 'mat2'", None, "0.4", read.types_of_other_dtypes),
            wording("Input type ({t1:type}) and weight type ({t2:type}) should be the same", "Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same", "0.4", None, read.types_of_other_dtypes),
            wording("Input type ({t1:type}) and bias type ({t2:type}) should be the same", "Input type (torch.cuda.HalfTensor) and bias type (torch.cuda.FloatTensor) should be the same", "0.4", None, read.types_of_other_dtypes),
            wording("Input type ({dt1:name}) and bias type ({dt2:name}) should be the same", "Input type (c10::Half) and bias type (float) should be the same", "2.1", None, lambda f: "Tensor" not in f["dt1"] and "Type" not in f["dt1"]),
            wording("Input type ({dt1:name}) and weight type ({dt2:name}) should be the same", "Input type (float) and weight type (c10::Half) should be the same", "2.1", None, lambda f: "Tensor" not in f["dt1"] and "Type" not in f["dt1"]),
            wording("Found dtype {dt1:name} but expected {dt2:name}", "Found dtype Double but expected Float", "1.2"),
            wording("Expected query, key, and value to have the same dtype, but got query.dtype: {dt1:name} key.dtype: {dt2:name} and value.dtype: {dt3:name} instead.", "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: c10::Half and value.dtype: c10::Half instead.", "2.0"),
            wording("Index put requires the source and destination dtypes match, got {dt1:name} for the destination and {dt2:name} for the source.", "Index put requires the source and destination dtypes match, got Half for the destination and Float for the source.", "1.6"),
            wording("Function {function:name} returned an invalid gradient at index {number:int} - expected type {t1:type} but got {t2:type}", "Function MulBackward0 returned an invalid gradient at index 0 - expected type torch.cuda.FloatTensor but got torch.cuda.HalfTensor", "1.0", "1.4", read.types_of_other_dtypes),
        ),
        T("`Half` is float16, `Float` float32, `Double` float64, `Long` int64; the usual strangers are float64 from NumPy and half-precision weights without autocast", "`Half` ist float16, `Float` float32, `Double` float64, `Long` int64; die üblichen Fremden sind float64 aus NumPy und Gewichte in halber Genauigkeit ohne autocast"),
        "x = x.to(layer.weight.dtype)",
        placement=False,
    ),
    Family(
        "amp-gradients",
        Kind.DTYPE,
        T("GradScaler found half-precision gradients", "GradScaler fand Gradienten in halber Genauigkeit"),
        T("With autocast the parameters stay in float32; `model.half()` and GradScaler do not go together", "Mit autocast bleiben die Parameter in float32; `model.half()` und GradScaler passen nicht zusammen"),
        ("dtype-mismatch",),
        (wording("Attempting to unscale FP16 gradients.", "Attempting to unscale FP16 gradients.", "1.6"),),
        code='with torch.autocast("cuda"):\n    loss = model(x)  # the model itself stays in float32',
        placement=False,
    ),
)  # fmt: skip
