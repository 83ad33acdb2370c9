/*
 * mask_shape - secrets known by how they look, without a name (inside of mask).
 *
 * is_cut says that the text goes on behind s[n) and nobody has read it: what
 * reaches the end and could still turn out to be a secret then counts as one.
 */
#ifndef PROCTOR_BASE_MASK_SHAPE_H
#define PROCTOR_BASE_MASK_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the token (ghp_…, AKIA…, a JWT, a PEM private key) that begins at s, or 0. */
size_t mask_shape_len(const char *s, size_t n, bool is_cut);

/*
 * s[0..n) is "user:password": the length of the user and the colon, if the user
 * is short and plain enough to be one and may be seen; else 0.
 */
size_t mask_user_len(const char *s, size_t n);

/*
 * s[0..n) is what stands behind the "://" of a URL. True if there is a password
 * (or a long user name, which is a token then) before the '@': s[from..to).
 */
bool mask_url_secret(const char *s, size_t n, bool is_cut, size_t *ret_from, size_t *ret_to);

#endif
