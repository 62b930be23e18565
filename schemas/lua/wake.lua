-- KEYS wakeups. A worker that stops may have taken a wake-up for a job that it will not claim.
wake(KEYS[1])
