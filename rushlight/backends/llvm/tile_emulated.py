"""Tile registers (AMX) in memory: what tile_ops.py's instructions do, as LLVM IR to be linked in.

For tests on machines without them. The state is 8 registers of 1 KiB and the 64 bytes of their
configuration; without one (before `ldtilecfg`, after `tilerelease`) registers have no rows, so
nothing is loaded, multiplied or stored. As Intel's manual describes them: a product of bfloat16 is
two chains of fused multiply-adds from 0, one of the low halves of the words, one of the high ones,
rounded to nearest even; their sum; and the sum of that and the old value. Subnormal operands and
results count as 0 with their sign (a result is flushed after it was rounded). NaN payloads are
those of this machine's arithmetic.
"""

PREFIX = "rushlight.tile."
CONFIG_AT = 8 * 1024
STATE_BYTES = CONFIG_AT + 64

_SIZES = f"""
define linkonce_odr hidden i64 @rushlight.tile.rows(ptr %s, i64 %t) {{
  %n = add i64 %t, {CONFIG_AT + 48}
  %p = getelementptr i8, ptr %s, i64 %n
  %v = load i8, ptr %p
  %r = zext i8 %v to i64
  ret i64 %r
}}
define linkonce_odr hidden i64 @rushlight.tile.bytes(ptr %s, i64 %t) {{
  %d = mul i64 %t, 2
  %n = add i64 %d, {CONFIG_AT + 16}
  %p = getelementptr i8, ptr %s, i64 %n
  %v = load i16, ptr %p
  %r = zext i16 %v to i64
  ret i64 %r
}}
define linkonce_odr hidden ptr @rushlight.tile.at(ptr %s, i64 %t, i64 %row) {{
  %a = mul i64 %t, 1024
  %b = mul i64 %row, 64
  %c = add i64 %a, %b
  %p = getelementptr i8, ptr %s, i64 %c
  ret ptr %p
}}
"""

_STATE = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define linkonce_odr hidden void @rushlight.tile.ldtilecfg(ptr %s, ptr %config) {{
  call void @llvm.memset.p0.i64(ptr %s, i8 0, i64 {CONFIG_AT}, i1 false)
  %at = getelementptr i8, ptr %s, i64 {CONFIG_AT}
  call void @llvm.memcpy.p0.p0.i64(ptr %at, ptr %config, i64 64, i1 false)
  ret void
}}
define linkonce_odr hidden void @rushlight.tile.tilerelease(ptr %s) {{
  call void @llvm.memset.p0.i64(ptr %s, i8 0, i64 {STATE_BYTES}, i1 false)
  ret void
}}
define linkonce_odr hidden void @rushlight.tile.tilezero(ptr %s, i64 %t) {{
  %p = call ptr @rushlight.tile.at(ptr %s, i64 %t, i64 0)
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 1024, i1 false)
  ret void
}}
"""


def _copy(name: str, source: str, dest: str) -> str:
    """Rows of a tile from or to memory."""
    return f"""
define linkonce_odr hidden void @rushlight.tile.{name}(ptr %s, i64 %t, ptr %m, i64 %step) noinline {{
entry:
  %rows = call i64 @rushlight.tile.rows(ptr %s, i64 %t)
  %bytes = call i64 @rushlight.tile.bytes(ptr %s, i64 %t)
  br label %test
test:
  %i = phi i64 [0, %entry], [%j, %loop]
  %more = icmp ult i64 %i, %rows
  br i1 %more, label %loop, label %done
loop:
  %p = call ptr @rushlight.tile.at(ptr %s, i64 %t, i64 %i)
  %off = mul i64 %i, %step
  %q = getelementptr i8, ptr %m, i64 %off
  call void @llvm.memcpy.p0.p0.i64(ptr {dest}, ptr {source}, i64 %bytes, i1 false)
  %j = add i64 %i, 1
  br label %test
done:
  ret void
}}
"""  # noqa: E501  (a head of a function)


# c += a @ b. WORD: the new sums %te, %to from %e, %o, the words %x (in all lanes) and %y;
# FINISH: the row %new from %old and the sums.
_PRODUCT = """
define linkonce_odr hidden void @rushlight.tile.NAME(ptr %s, i64 %c, i64 %a, i64 %b) noinline {
entry:
  %rows = call i64 @rushlight.tile.rows(ptr %s, i64 %c)
  %bytes = call i64 @rushlight.tile.bytes(ptr %s, i64 %a)
  %words = lshr i64 %bytes, 2
  br label %row
row:
  %m = phi i64 [0, %entry], [%next.m, %end]
  %more = icmp ult i64 %m, %rows
  br i1 %more, label %begin, label %done
begin:
  %pa = call ptr @rushlight.tile.at(ptr %s, i64 %a, i64 %m)
  %pc = call ptr @rushlight.tile.at(ptr %s, i64 %c, i64 %m)
  br label %test
test:
  %k = phi i64 [0, %begin], [%next.k, %loop]
  %e = phi <16 x i32> [zeroinitializer, %begin], [%te, %loop]
  %o = phi <16 x i32> [zeroinitializer, %begin], [%to, %loop]
  %again = icmp ult i64 %k, %words
  br i1 %again, label %loop, label %end
loop:
  %px = getelementptr i32, ptr %pa, i64 %k
  %x1 = load i32, ptr %px
  %x0 = insertelement <16 x i32> poison, i32 %x1, i32 0
  %x = shufflevector <16 x i32> %x0, <16 x i32> poison, <16 x i32> zeroinitializer
  %py = call ptr @rushlight.tile.at(ptr %s, i64 %b, i64 %k)
  %y = load <16 x i32>, ptr %py, align 4
WORD
  %next.k = add i64 %k, 1
  br label %test
end:
  %old = load <16 x i32>, ptr %pc, align 4
FINISH
  store <16 x i32> %new, ptr %pc, align 4
  %next.m = add i64 %m, 1
  br label %row
done:
  ret void
}
"""  # noqa: E501


def _product(name: str, word: str, finish: str) -> str:
    return _PRODUCT.replace("NAME", name).replace("WORD", word).replace("FINISH", finish)


_FLOATS = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define linkonce_odr hidden <16 x i32> @rushlight.tile.flush(<16 x i32> %x) {
  %e = and <16 x i32> %x, splat (i32 2139095040)
  %s = and <16 x i32> %x, splat (i32 -2147483648)
  %z = icmp eq <16 x i32> %e, zeroinitializer
  %r = select <16 x i1> %z, <16 x i32> %s, <16 x i32> %x
  ret <16 x i32> %r
}
define linkonce_odr hidden <16 x i32> @rushlight.tile.fma(<16 x i32> %x, <16 x i32> %y, <16 x i32> %z) {
  %fx = call <16 x i32> @rushlight.tile.flush(<16 x i32> %x)
  %fy = call <16 x i32> @rushlight.tile.flush(<16 x i32> %y)
  %a = bitcast <16 x i32> %fx to <16 x float>
  %b = bitcast <16 x i32> %fy to <16 x float>
  %c = bitcast <16 x i32> %z to <16 x float>
  %t = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %c)
  %u = bitcast <16 x float> %t to <16 x i32>
  %r = call <16 x i32> @rushlight.tile.flush(<16 x i32> %u)
  ret <16 x i32> %r
}
define linkonce_odr hidden <16 x i32> @rushlight.tile.add(<16 x i32> %x, <16 x i32> %y) {
  %fx = call <16 x i32> @rushlight.tile.flush(<16 x i32> %x)
  %fy = call <16 x i32> @rushlight.tile.flush(<16 x i32> %y)
  %a = bitcast <16 x i32> %fx to <16 x float>
  %b = bitcast <16 x i32> %fy to <16 x float>
  %t = fadd <16 x float> %a, %b
  %u = bitcast <16 x float> %t to <16 x i32>
  %r = call <16 x i32> @rushlight.tile.flush(<16 x i32> %u)
  ret <16 x i32> %r
}
"""  # noqa: E501

_PAIRS = """
  %xl = shl <16 x i32> %x, splat (i32 16)
  %yl = shl <16 x i32> %y, splat (i32 16)
  %xh = and <16 x i32> %x, splat (i32 -65536)
  %yh = and <16 x i32> %y, splat (i32 -65536)
  %te = call <16 x i32> @rushlight.tile.fma(<16 x i32> %xl, <16 x i32> %yl, <16 x i32> %e)
  %to = call <16 x i32> @rushlight.tile.fma(<16 x i32> %xh, <16 x i32> %yh, <16 x i32> %o)
"""
_PAIRS_END = """
  %both = call <16 x i32> @rushlight.tile.add(<16 x i32> %e, <16 x i32> %o)
  %new = call <16 x i32> @rushlight.tile.add(<16 x i32> %old, <16 x i32> %both)
"""


def _quads() -> str:
    """Sums of the products of the four signed bytes."""
    lines = []
    for i in range(4):
        for x in "xy":
            lines.append(f"  %{x}s{i} = shl <16 x i32> %{x}, splat (i32 {24 - 8 * i})")
            lines.append(f"  %{x}b{i} = ashr <16 x i32> %{x}s{i}, splat (i32 24)")
        lines.append(f"  %p{i} = mul <16 x i32> %xb{i}, %yb{i}")
        before = "%e" if i == 0 else f"%t{i - 1}"
        lines.append(f"  %{'te' if i == 3 else f't{i}'} = add <16 x i32> {before}, %p{i}")
    return "\n".join([*lines, "  %to = add <16 x i32> %o, zeroinitializer"])


EMULATION = "".join(
    (
        _SIZES,
        _STATE,
        _copy("tileloadd64", "%q", "%p"),
        _copy("tilestored64", "%p", "%q"),
        _FLOATS,
        _product("tdpbf16ps", _PAIRS, _PAIRS_END),
        _product("tdpbssd", _quads(), "  %new = add <16 x i32> %old, %e"),
    )
)
