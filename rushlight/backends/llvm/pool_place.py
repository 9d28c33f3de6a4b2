"""Where the pool's workers wake up: not on the caller's processor.

LLVM IR with holes like pool_text.py. Linux tends to wake a thread where it slept last, and in a
virtual machine, which hides that processors share a cache, it does not look for an idle one: the
worker then takes the caller's processor until the load is balanced, some milliseconds later. So
before a worker is woken it is told: any processor that the caller may use but the caller's own.
"""

PLACE = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Nothing is done where the caller still is on the processor of the last time, or may use no other.
define internal void @place_workers(ptr %pool) noinline {
entry:
  <at caller_cpu>
  <at ids>
  <at threads>
  %mask = alloca [16 x i64], align 8
  %cpu.int = call i32 @sched_getcpu()
  %cpu = sext i32 %cpu.int to i64
  %last = load i64, ptr %caller_cpu
  %stays = icmp eq i64 %cpu, %last
  %strange = icmp ugt i64 %cpu, 1023
  %nothing = or i1 %stays, %strange
  br i1 %nothing, label %out, label %ask
ask:
  store [16 x i64] zeroinitializer, ptr %mask
  %answer = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %refused = icmp slt i32 %answer, 0
  br i1 %refused, label %out, label %without.own
without.own:
  store i64 %cpu, ptr %caller_cpu
  %word.at = lshr i64 %cpu, 6
  %word.p = getelementptr i64, ptr %mask, i64 %word.at
  %word = load i64, ptr %word.p
  %bit.at = and i64 %cpu, 63
  %bit = shl i64 1, %bit.at
  %others = xor i64 %bit, -1
  %kept = and i64 %word, %others
  store i64 %kept, ptr %word.p
  br label %look
look:
  %i = phi i64 [ 0, %without.own ], [ %i.next, %look.next ]
  %more.words = icmp ult i64 %i, 16
  br i1 %more.words, label %look.next, label %out
look.next:
  %i.p = getelementptr i64, ptr %mask, i64 %i
  %i.word = load i64, ptr %i.p
  %i.next = add i64 %i, 1
  %some = icmp ne i64 %i.word, 0
  br i1 %some, label %tell, label %look
tell:
  %threads.count = load i64, ptr %threads
  %list = load ptr, ptr %ids
  br label %worker
worker:
  %w = phi i64 [ 1, %tell ], [ %w.next, %worker.tell ]
  %more = icmp slt i64 %w, %threads.count
  br i1 %more, label %worker.tell, label %out
worker.tell:
  %id.p = getelementptr i64, ptr %list, i64 %w
  %id = load i64, ptr %id.p
  %id.int = trunc i64 %id to i32
  call i32 @sched_setaffinity(i32 %id.int, i64 128, ptr %mask)
  %w.next = add i64 %w, 1
  br label %worker
out:
  ret void
}
"""

# For systems whose scheduler takes no such orders.
PLACE_NOWHERE = """
define internal void @place_workers(ptr %pool) { ret void }
"""
