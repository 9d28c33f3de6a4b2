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

static inline long index_min(long a, long b) {
    return (a < b) ? a : b;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void rows_reduce_sum_float32_0_g0(
    device const float *b0 [[buffer(0)]],
    device float *b1 [[buffer(1)]],
    device const long *numbers [[buffer(2)]],
    device long *status [[buffer(3)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long group_id = group_position;
    const long thread_id = thread_position;
    threadgroup float part_1[2048];
    threadgroup float r0_17[64];
    const long instance_id = group_id;
    const long cb = instance_id;
    for (long i_5 = thread_id; i_5 < index_min(64, 70 - cb * 64) * 32; i_5 += 256) {
        const long p_3 = (i_5 / (index_min(64, 70 - cb * 64)));
        const long row_2 = (i_5 % (index_min(64, 70 - cb * 64)));
        const long c = row_2;
        float acc_4 = 0.0f;
        for (long f_6 = p_3; f_6 < 300; f_6 += 32) {
            const long d0 = f_6;
            acc_4 = acc_4 + b0[d0 * 70 + cb * 64 + c];
        }
        part_1[p_3 * 64 + row_2] = acc_4;
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_8 = thread_id; i_8 < index_min(64, 70 - cb * 64) * 16; i_8 += 256) {
        const long p_7 = (i_8 / (index_min(64, 70 - cb * 64)));
        const long row_2 = (i_8 % (index_min(64, 70 - cb * 64)));
        part_1[p_7 * 64 + row_2] = part_1[p_7 * 64 + row_2] + part_1[p_7 * 64 + row_2 + 1024];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_10 = thread_id; i_10 < index_min(64, 70 - cb * 64) * 8; i_10 += 256) {
        const long p_9 = (i_10 / (index_min(64, 70 - cb * 64)));
        const long row_2 = (i_10 % (index_min(64, 70 - cb * 64)));
        part_1[p_9 * 64 + row_2] = part_1[p_9 * 64 + row_2] + part_1[p_9 * 64 + row_2 + 512];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_12 = thread_id; i_12 < index_min(64, 70 - cb * 64) * 4; i_12 += 256) {
        const long p_11 = (i_12 / (index_min(64, 70 - cb * 64)));
        const long row_2 = (i_12 % (index_min(64, 70 - cb * 64)));
        part_1[p_11 * 64 + row_2] = part_1[p_11 * 64 + row_2] + part_1[p_11 * 64 + row_2 + 256];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_14 = thread_id; i_14 < index_min(64, 70 - cb * 64) * 2; i_14 += 256) {
        const long p_13 = (i_14 / (index_min(64, 70 - cb * 64)));
        const long row_2 = (i_14 % (index_min(64, 70 - cb * 64)));
        part_1[p_13 * 64 + row_2] = part_1[p_13 * 64 + row_2] + part_1[p_13 * 64 + row_2 + 128];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_16 = thread_id; i_16 < index_min(64, 70 - cb * 64); i_16 += 256) {
        const long p_15 = 0;
        const long row_2 = i_16;
        part_1[p_15 * 64 + row_2] = part_1[p_15 * 64 + row_2] + part_1[p_15 * 64 + row_2 + 64];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long row_2 = thread_id; row_2 < index_min(64, 70 - cb * 64); row_2 += 256) {
        const long c = row_2;
        r0_17[c] = part_1[row_2];
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long c = thread_id; c < index_min(64, 70 - cb * 64); c += 256) {
        b1[cb * 64 + c] = r0_17[c];
    }
}
