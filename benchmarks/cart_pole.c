/* CartPole-v1, written by hand for speed: the limit that limit.py compares jaxenv with.
 *
 * It does the same work as jaxenv: the same streams of Threefry-2x32-13, a random policy, Euler physics, a time limit,
 * and `next_step` restarts by selection, which compute a start for every lane at every step. Each array holds one value
 * per lane, and the single inner loop over lanes has no branch, so the compiler vectorises it. It runs in one thread.
 *
 * Compile with cc -O3 -march=native -fno-math-errno -fno-trapping-math -shared -fPIC, with NAME_0(k) and NAME_1(k)
 * defined as the words of a key after the name of the environment is folded in, and POLICY_0(k) and POLICY_1(k) as the
 * key words of a lane after the salts of the policy's stream are folded in.
 */
#include <math.h>
#include <stdint.h>

typedef struct {
    float *x, *x_dot, *theta, *theta_dot;
    uint32_t *k0, *k1, *episode, *step;
    int32_t *ended, *action;
    /* Sums over the rollout */
    float *observation, *reward;
    int32_t *steps, *terminated, *truncated;
} Lanes;

typedef struct {
    uint32_t a, b;
} Words;

#define GOLDEN 0x9E3779B1u

#define ROUND(r) x0 += x1, x1 = (x1 << r | x1 >> (32 - r)) ^ x0;
#define KEY(s, first, second) x0 += first, x1 += second + s;
#define ROUNDS_12                                                                                                      \
    uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDAu, x0 = c0 + k0, x1 = c1 + k1;                                                   \
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) KEY(1, k1, k2)                                                              \
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) KEY(2, k2, k0)                                                             \
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) KEY(3, k0, k1)

static inline Words threefry_13(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1) {
    ROUNDS_12
    ROUND(17)
    return (Words){x0, x1};
}

static inline Words threefry_20(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1) {
    ROUNDS_12
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) KEY(4, k1, k2)
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) KEY(5, k2, k0)
    return (Words){x0, x1};
}

static inline int32_t random_action(uint32_t k0, uint32_t k1, uint32_t episode, uint32_t step) {
    return threefry_13(POLICY_0(k0), POLICY_1(k1), episode, step).a >> 31;
}

static inline float start(uint32_t word) { return -0.05f + (float)(int32_t)(word >> 8) * 0x1p-24f * 0.1f; }

static inline void sin_cos(float x, float *sin, float *cos) {
    float turns = rintf(x * 0.636619772f);
    float r = ((x - turns * 1.5703125f) - turns * 4.837512969970703e-4f) - turns * 7.54978995489188e-8f;
    float q = r * r;
    float s = r + r * q * ((-1.9515295891e-4f * q + 8.3321608736e-3f) * q - 1.6666654611e-1f);
    float c = 1 - 0.5f * q
              + q * q * ((2.443315711809948e-5f * q - 1.388731625493765e-3f) * q + 4.166664568298827e-2f);
    int32_t quadrant = (int32_t)turns & 3, swapped = quadrant & 1;
    float first = swapped ? c : s, second = swapped ? s : c;
    *sin = quadrant >= 2 ? -first : first;
    *cos = quadrant == 1 || quadrant == 2 ? -second : second;
}

static void reset(Lanes *l, int lanes, uint32_t seed) {
    for (int i = 0; i < lanes; i++) {
        /* jax.random.fold_in(jax.random.key(seed), i) */
        Words key = threefry_20(0, seed, 0, (uint32_t)i), k = {NAME_0(key.a), NAME_1(key.b)};
        Words first = threefry_13(k.a, k.b, 0, 0), second = threefry_13(k.a + GOLDEN, k.b, 0, 0);
        l->k0[i] = k.a, l->k1[i] = k.b;
        l->x[i] = start(first.a), l->x_dot[i] = start(second.a);
        l->theta[i] = start(first.b), l->theta_dot[i] = start(second.b);
        l->episode[i] = l->step[i] = 0;
        l->action[i] = random_action(k.a, k.b, 0, 0);
        l->ended[i] = 0;
        l->observation[i] = l->reward[i] = 0;
        l->steps[i] = l->terminated[i] = l->truncated[i] = 0;
    }
}

static void step(Lanes *l, int lanes, int limit) {
    float *x_ = l->x, *x_dot_ = l->x_dot, *theta_ = l->theta, *theta_dot_ = l->theta_dot;
    uint32_t *k0_ = l->k0, *k1_ = l->k1, *episode_ = l->episode, *step_ = l->step;
    int32_t *ended_ = l->ended, *action_ = l->action;
    float *observation_ = l->observation, *reward_ = l->reward;
    int32_t *steps_ = l->steps, *terminated_ = l->terminated, *truncated_ = l->truncated;
#pragma GCC ivdep
    for (int i = 0; i < lanes; i++) {
        const float masspole = 0.1f, total_mass = 1.1f, polemass_length = 0.05f, length = 0.5f, tau = 0.02f;
        float x = x_[i], x_dot = x_dot_[i], theta = theta_[i], theta_dot = theta_dot_[i];
        uint32_t k0 = k0_[i], k1 = k1_[i], episode = episode_[i], step = step_[i] + 1;
        int32_t starts = ended_[i];

        float sin, cos;
        sin_cos(theta, &sin, &cos);
        float force = action_[i] == 1 ? 10.0f : -10.0f;
        float push = (force + polemass_length * theta_dot * theta_dot * sin) / total_mass;
        float theta_acc = (9.8f * sin - cos * push) / (length * (4.0f / 3 - masspole * cos * cos / total_mass));
        float x_acc = push - polemass_length * theta_acc * cos / total_mass;
        x += tau * x_dot, x_dot += tau * x_acc;
        theta += tau * theta_dot, theta_dot += tau * theta_acc;
        int32_t fallen = (fabsf(x) > 2.4f) | (fabsf(theta) > 0.20943951f);
        int32_t reached = (int32_t)step >= limit;

        Words first = threefry_13(k0, k1, episode + 1, 0), second = threefry_13(k0 + GOLDEN, k1, episode + 1, 0);
        x = starts ? start(first.a) : x, x_dot = starts ? start(second.a) : x_dot;
        theta = starts ? start(first.b) : theta, theta_dot = starts ? start(second.b) : theta_dot;
        episode += (uint32_t)starts, step = starts ? 0 : step;

        x_[i] = x, x_dot_[i] = x_dot, theta_[i] = theta, theta_dot_[i] = theta_dot;
        episode_[i] = episode, step_[i] = step;
        ended_[i] = !starts & (fallen | reached);
        action_[i] = random_action(k0, k1, episode, step);
        observation_[i] += (x + x_dot) + (theta + theta_dot);
        reward_[i] += starts ? 0.0f : 1.0f;
        steps_[i] += !starts, terminated_[i] += !starts & fallen, truncated_[i] += !starts & !fallen & reached;
    }
}

void rollout(Lanes *l, int lanes, int steps, int limit, uint32_t seed) {
    reset(l, lanes, seed);
    for (int t = 0; t < steps; t++)
        step(l, lanes, limit);
}
