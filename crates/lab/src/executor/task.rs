// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks, and the queue of ready ones.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};

use super::shared::{Shared, Wait, What};

/// Number of a task, in the order of spawning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskId(u64);

impl TaskId {
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Arc<TaskWaker>>,
    /// Whether a free-running lab sleeps until a task is ready.
    is_awaited: bool,
    /// Whether the lab is gone, so that no task gets a turn.
    is_over: bool,
}

/// Tasks that are ready, first come, first served.
#[derive(Debug, Default)]
pub(super) struct Ready {
    queue: Mutex<Queue>,
    /// Wakes a free-running lab that is idle.
    pushed: Condvar,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task, which is ready.
    pub fn add(self: &Arc<Self>, id: TaskId) -> Arc<TaskWaker> {
        let is_queued = AtomicBool::new(false);
        let task = Arc::new(TaskWaker { ready: self.clone(), id, is_queued });
        task.wake_by_ref();
        task
    }

    /// Sleeps until another thread makes a task ready.
    pub fn wait(&self) {
        let mut queue = self.lock();
        queue.is_awaited = true;
        let waited = self.pushed.wait_while(queue, |queue| queue.order.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).is_awaited = false;
    }

    /// Takes the next task, which can become ready again from now on.
    pub fn pop(&self) -> Option<Arc<TaskWaker>> {
        let task = self.lock().order.pop_front()?;
        task.is_queued.swap(false, Ordering::AcqRel);
        Some(task)
    }

    /// Drops the queue, whose tasks keep it alive.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.is_over = true;
        let order = std::mem::take(&mut queue.order);
        drop(queue);
        drop(order);
    }
}

/// Data of a task's wakers.
#[derive(Debug)]
pub(super) struct TaskWaker {
    ready: Arc<Ready>,
    pub id: TaskId,
    /// Whether it is in the queue, where each task is once.
    is_queued: AtomicBool,
}

impl TaskWaker {
    /// Takes an ended task out of the queue.
    pub fn forget(&self) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            self.ready.lock().order.retain(|other| other.id != self.id);
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queue = self.ready.lock();
        if !queue.is_over {
            queue.order.push_back(self.clone());
        }
        if queue.is_awaited {
            drop(queue);
            self.ready.pushed.notify_one();
        }
    }
}

/// Result of a task, for its [`Task`].
struct Left<T> {
    output: Option<T>,
    /// Token of the wait for it.
    waiting: Option<u64>,
    ended: bool,
}

/// A spawned task, as a future of its output.
pub struct Task<T> {
    shared: Arc<Shared>,
    name: Arc<str>,
    left: Arc<Mutex<Left<T>>>,
    wait: Option<Wait>,
}

impl<T> Task<T> {
    pub(super) fn new<F: Future<Output = T>>(
        shared: Arc<Shared>,
        name: &str,
        future: F,
    ) -> (Self, impl Future<Output = ()> + use<T, F>) {
        let left = Left { output: None, waiting: None, ended: false };
        let left = Arc::new(Mutex::new(left));
        let (of_task, shared_of_task) = (left.clone(), shared.clone());
        let future = async move {
            let output = future.await;
            let token = {
                let mut left = of_task.lock().unwrap_or_else(PoisonError::into_inner);
                left.output = Some(output);
                left.ended = true;
                left.waiting.take()
            };
            if let Some(token) = token {
                shared_of_task.happened(token);
            }
        };
        (Self { shared, name: name.into(), left, wait: None }, future)
    }

    /// Whether the task has ended.
    pub fn has_ended(&self) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).ended
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// If it has returned its output already.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let mut left = this.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(output) = left.output.take() {
            this.wait = None;
            return Poll::Ready(output);
        }
        assert!(!left.ended, "task {} has given its output already", this.name);
        let wait = this.wait.get_or_insert_with(|| {
            let wait = this.shared.wait(What::Task(this.name.clone()));
            left.waiting = Some(wait.token());
            wait
        });
        // Never ready: its outcome is checked above.
        let _ = Pin::new(wait).poll(context);
        Poll::Pending
    }
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}
