/*
 * mask_name - is what stands behind this name a secret? (inside of mask)
 *
 * Names are taken apart into words ("awsSecretAccessKey" is aws, secret,
 * access, key), so that --token is one and --tokenizer, --max-tokens and
 * --eos_token_id are not. When in doubt a name is secret, but a name that ends
 * like a file's or a size's (--password-file, --token-limit) is not. Of keys only
 * those of the environment are (OPENAI_KEY): --sort-key and key= are of data.
 */
#ifndef PROCTOR_BASE_MASK_NAME_H
#define PROCTOR_BASE_MASK_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mask.h"

/* name[0..n) without leading dashes. in_query: it follows a '?' or '&', as in a URL. */
bool mask_name_is_secret(const struct mask *mask, const char *name, size_t n, bool in_query);

/* PWD and OLDPWD: the shell's folder, if not a password of a connection string. */
bool mask_name_is_folder(const char *name, size_t n);

/* --ask-pass, --no-password: an option that has a secret's name and takes no value. */
bool mask_name_is_switch(const char *name, size_t n);

#endif
