# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in CUDA C++, every decision taken by hand.

Shapes: ``x`` and the result are ``(rows, COLUMNS)``, bfloat16, contiguous; COLUMNS a multiple of 8 * THREADS.
Source: NVIDIA, *CUDA C++ Programming Guide*, on warp shuffles and on vector loads.
"""

THREADS = 256

SOURCE = r"""
// --8<-- [start:kernel]
#include <cuda_bf16.h>

struct Largest {
  __device__ float operator()(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) { return a + b; }
};

template <class Combine>
__device__ float across_threads(float value, Combine combine) {
  __shared__ float shared[WARPS];
  for (int other = 16; other; other /= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, other));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[threadIdx.x % WARPS];
  for (int other = WARPS / 2; other; other /= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, other));
  __syncthreads();
  return value;
}

union Eight {  // 16 bytes, loaded and stored at once
  uint4 bits;
  __nv_bfloat16 number[8];
};

extern "C" __global__ void softmax_kernel(const uint4* x, uint4* out) {
  constexpr int PIECES = COLUMNS / 8 / THREADS;
  size_t start = blockIdx.x * size_t(COLUMNS / 8) + threadIdx.x;
  float value[PIECES][8], largest = -INFINITY, total = 0;
  for (int i = 0; i < PIECES; i++) {
    Eight piece{x[start + i * THREADS]};
    for (int j = 0; j < 8; j++) {
      value[i][j] = __bfloat162float(piece.number[j]);
      largest = fmaxf(largest, value[i][j]);
    }
  }
  largest = across_threads(largest, Largest());
  for (int i = 0; i < PIECES; i++)
    for (int j = 0; j < 8; j++)
      total += value[i][j] = expf(value[i][j] - largest);
  total = across_threads(total, Sum());
  for (int i = 0; i < PIECES; i++) {
    Eight piece;
    for (int j = 0; j < 8; j++)
      piece.number[j] = __float2bfloat16(value[i][j] / total);
    out[start + i * THREADS] = piece.bits;
  }
}
// --8<-- [end:kernel]
"""
