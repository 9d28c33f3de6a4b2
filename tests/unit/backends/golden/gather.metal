#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#ifndef IN_GROUP
#define IN_GROUP(kind, place) ((threadgroup kind *)(place))
#endif

// 0 for an index out of range, which is told to the host.
static inline long check_index(long index, long size, long site, device long *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}

[[max_total_threads_per_threadgroup(128)]]
kernel void map_gather_nd_float32_0_g0(
    device float *b0 [[buffer(0)]],
    device const long *b1 [[buffer(1)]],
    device const float *b2 [[buffer(2)]],
    device const long *numbers [[buffer(3)]],
    device long *status [[buffer(4)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long group_id = group_position;
    const long thread_id = thread_position;
    const long instance_id = group_id;
    for (long i_1 = thread_id; i_1 < 90; i_1 += 128) {
        const long d0 = (i_1 / 6);
        const long d1 = (i_1 % 6);
        b0[d0 * 6 + d1] = b2[check_index(b1[d0], 20, 1, status) * 6 + d1];
    }
}
