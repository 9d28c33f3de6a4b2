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

static inline float fold_max_f32(float x, float y) {
    return (x == y) ? as_type<float>((as_type<int>(x) & as_type<int>(y))) : (((x > y) | (x != x)) ? x : y);
}

[[max_total_threads_per_threadgroup(128)]]
kernel void rows_exp_reduce_sum_div_float32_0_g0(
    device const float *b0 [[buffer(0)]],
    device float *b1 [[buffer(1)]],
    device const long *numbers [[buffer(2)]],
    device long *status [[buffer(3)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long group_id = group_position;
    const long thread_id = thread_position;
    threadgroup float part_1[1];
    threadgroup float r0_6[1];
    threadgroup float f1_7[77];
    threadgroup float part_8[1];
    threadgroup float r2_13[1];
    const long instance_id = group_id;
    const long d0 = instance_id;
    for (long p_3 = thread_id; p_3 < 32; p_3 += 128) {
        float acc_4 = (float)(-INFINITY);
        for (long f_5 = p_3; f_5 < 77; f_5 += 32) {
            const long d1 = f_5;
            acc_4 = fold_max_f32(acc_4, b0[d0 * 77 + d1]);
        }
        acc_4 = fold_max_f32(acc_4, simd_shuffle_down(acc_4, 16));
        acc_4 = fold_max_f32(acc_4, simd_shuffle_down(acc_4, 8));
        acc_4 = fold_max_f32(acc_4, simd_shuffle_down(acc_4, 4));
        acc_4 = fold_max_f32(acc_4, simd_shuffle_down(acc_4, 2));
        acc_4 = fold_max_f32(acc_4, simd_shuffle_down(acc_4, 1));
        if (p_3 == 0) {
            part_1[0] = acc_4;
        }
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    if (thread_id == 0) {
        r0_6[0] = part_1[0];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long d1 = thread_id; d1 < 77; d1 += 128) {
        const float t_0 = b0[d0 * 77 + d1] - r0_6[0];
        const float t_1 = (t_0 < (-104.0f)) ? (-104.0f) : t_0;
        const float t_2 = (t_1 > 89.0f) ? 89.0f : t_1;
        const float t_3 = fma(t_2, 1.442695f, 1.2583166e+07f);
        const float t_4 = t_3 - 1.2583166e+07f;
        const float t_5 = fma(t_4, 1.9046542e-09f, fma(t_4, (-0.6931472f), t_2));
        const float t_6 = fma(fma(fma(0.0013825456f, t_5, 0.008369387f), t_5, 0.04166823f), t_5, 0.16666515f);
        const int t_7 = as_type<int>(t_3);
        const int t_8 = t_7 >> 1;
        const float t_9 = fma(t_5, fma(t_5, fma(t_6, t_5, 0.49999994f), 1.0f), 1.0f) * as_type<float>(((int)((uint)t_8 << (uint)23)));
        const float t_10 = as_type<float>(((int)((uint)((int)((uint)t_7 - (uint)t_8)) << (uint)23)));
        f1_7[d1] = t_9 * t_10;
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long p_10 = thread_id; p_10 < 32; p_10 += 128) {
        float acc_11 = 0.0f;
        for (long f_12 = p_10; f_12 < 77; f_12 += 32) {
            const long d1 = f_12;
            acc_11 = acc_11 + f1_7[d1];
        }
        acc_11 = acc_11 + simd_shuffle_down(acc_11, 16);
        acc_11 = acc_11 + simd_shuffle_down(acc_11, 8);
        acc_11 = acc_11 + simd_shuffle_down(acc_11, 4);
        acc_11 = acc_11 + simd_shuffle_down(acc_11, 2);
        acc_11 = acc_11 + simd_shuffle_down(acc_11, 1);
        if (p_10 == 0) {
            part_8[0] = acc_11;
        }
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    if (thread_id == 0) {
        r2_13[0] = part_8[0];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long d1 = thread_id; d1 < 77; d1 += 128) {
        b1[d0 * 77 + d1] = f1_7[d1] / r2_13[0];
    }
}
