#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/mask.h"

/* One case: arguments separated by '|', and what may be seen of them. */
struct row {
	const char *args;
	const char *seen;
};

static struct mask *new_mask(const char *const *patterns, size_t n)
{
	struct mask *mask = NULL;

	assert_int_equal(mask_new(patterns, n, &mask, NULL), 0);
	return mask;
}

static char *masked(const struct mask *mask, const char *args, size_t len)
{
	struct buf out = BUF_INIT;

	mask_command(mask, args, len, &out);
	assert_int_equal(buf_error(&out), 0);
	return buf_detach(&out);
}

static void split(char *args, char at)
{
	for (; *args; args++)
		if (*args == at)
			*args = '\0';
}

static void check_rows(const struct row *rows, size_t n)
{
	struct mask *mask = new_mask(NULL, 0);

	for (size_t i = 0; i < n; i++) {
		char *args = strdup(rows[i].args);
		size_t len = strlen(args) + 1; /* the last NUL, as in /proc */
		char *seen;

		split(args, '|');
		seen = masked(mask, args, len);
		assert_string_equal(seen, rows[i].seen);
		free(seen);
		free(args);
	}
	mask_free(mask);
}

static void test_options_and_assignments(void **state)
{
	static const struct row rows[] = {
		{ "x|--token=abc|y", "x --token=*** y" },
		{ "x|--token|abc|y", "x --token *** y" },
		{ "x|-token|abc|y", "x -token *** y" },
		{ "x|--password|abc def|y", "x --password *** y" },
		{ "x|--password| abc def|y", "x --password *** y" },
		{ "x|--password=abc def|y", "x --password=*** y" },
		{ "x|--password=a\nb\x01 c|y", "x --password=*** y" },
		{ "x|--password\n=abc|y", "x --password =*** y" },
		{ "x|--password\x01"
		  "abc|y",
		  "x --password?*** y" },
		{ "x|--password||y", "x --password *** y" },
		{ "x|--password=|abc", "x --password= ***" },
		{ "x|--api-key|k|--apikey=k|--API_KEY=k",
		  "x --api-key *** --apikey=*** --API_KEY=***" },
		{ "x|client_secret=abc", "x client_secret=***" },
		{ "x|passwd=abc|secret=abc|credential=abc|private_key=abc",
		  "x passwd=*** secret=*** credential=*** private_key=***" },
		{ "x|--credentials|abc|--passphrase|abc", "x --credentials *** --passphrase ***" },
		{ "env|AWS_SECRET_ACCESS_KEY=abc|AWS_SESSION_TOKEN=abc|aws_secret_access_key=abc",
		  "env AWS_SECRET_ACCESS_KEY=*** AWS_SESSION_TOKEN=*** aws_secret_access_key=***" },
		{ "env|PGPASSWORD=x|MYSQL_PWD=x|DB_PASS=x|TOKEN_PROD=x|HF_TOKEN2=x|psql",
		  "env PGPASSWORD=*** MYSQL_PWD=*** DB_PASS=*** TOKEN_PROD=*** HF_TOKEN2=*** psql" },
		{ "java|-Dspring.datasource.password=a b|-DaccessToken=t|-DAPIKey=k",
		  "java -Dspring.datasource.password=*** -DaccessToken=*** -DAPIKey=***" },
		{ "docker|run|-e|TOKEN=a b|-eTOKEN=abc|--env=API_KEY=a b|img",
		  "docker run -e TOKEN=*** -eTOKEN=*** --env=API_KEY=*** img" },
		{ "npm|//registry.example/:_authToken=abc",
		  "npm //registry.example/:_authToken=***" },
		{ "redis-server|--requirepass|abc", "redis-server --requirepass ***" },
		{ "openssl|rsa|-passin|pass:abc", "openssl rsa -passin ***" },
		{ "openssl|rsa|pass:abc def", "openssl rsa pass:***" },
		{ "cc|-DPASS=X1|-DMYPW=X1|-DNDEBUG=1", "cc -DPASS=*** -DMYPW=*** -DNDEBUG=1" },
		{ "env|REDISCLI_AUTH=X1|AZURE_PAT=X1|AUTH=x|ROOTPW=X1",
		  "env REDISCLI_AUTH=*** AZURE_PAT=*** AUTH=x ROOTPW=***" },
		{ "x|{\"u\":\"https:\\/\\/me:X1@h\\/\"}", "x {\"u\":\"https:\\/\\/me:***@h\\/\"}" },
		{ "env|OPENAI_KEY=abc|DJANGO_KEY=abc|run",
		  "env OPENAI_KEY=*** DJANGO_KEY=*** run" },
		{ "x|--bearer|abc|--bearer=abc|y", "x --bearer *** --bearer=*** y" },
		{ "x|--dbpass|abc|-storepass|abc|--userPass=abc",
		  "x --dbpass *** -storepass *** --userPass=***" },
		{ "aws|configure|set|aws_secret_access_key|abc|--profile|p",
		  "aws configure set aws_secret_access_key *** --profile p" },
		{ "aws|configure|set|--profile|p|aws_secret_access_key|abc",
		  "aws configure set --profile p aws_secret_access_key ***" },
		{ "npm|config|set|//registry.example/:_authToken|abc",
		  "npm config set //registry.example/:_authToken ***" },
		{ "redis-cli|CONFIG|SET|requirepass|abc", "redis-cli CONFIG SET requirepass ***" },
		{ "sh|-c|aws configure set aws_secret_access_key 'a b'; ls",
		  "sh -c aws configure set aws_secret_access_key '***'; ls" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

/* A password's name in connection strings, the shell's folder in the environment. */
static void test_pwd(void **state)
{
	static const struct row rows[] = {
		{ "x|Server=h;Pwd=abc;", "x Server=h;Pwd=***" },
		{ "x|Server=h;PWD=/abc;Uid=sa", "x Server=h;PWD=***" },
		{ "x|Data Source=h;Pwd=a b;Uid=sa", "x Data Source=h;Pwd=***" },
		{ "x|--conn|Pwd=abc;Server=h", "x --conn Pwd=***" },
		{ "sh|-c|run 'Server=h;Pwd=abc;' now", "sh -c run 'Server=h;Pwd=***' now" },
		{ "x|https://h/?pwd=/abc&n=1", "x https://h/?pwd=***&n=1" },
		{ "x|{\"pwd\": \"abc\"}", "x {\"pwd\": \"***\"}" },
		{ "x|--pwd|abc|--pwd=abc", "x --pwd *** --pwd=***" },
		{ "env|PWD=/work|OLDPWD=~/x|x|--pwd|/work|--pwd=$PWD",
		  "env PWD=/work OLDPWD=~/x x --pwd /work --pwd=$PWD" },
		{ "sh|-c|PWD=\"$HOME\" OLDPWD=.. x --pwd './a b' y",
		  "sh -c PWD=\"$HOME\" OLDPWD=.. x --pwd './a b' y" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_next_option_is_not_the_value(void **state)
{
	static const struct row rows[] = {
		{ "x|--password|--verbose|y", "x --password --verbose y" },
		{ "x|--password|-h|y", "x --password -h y" },
		{ "x|--password|--token|abc", "x --password --token ***" },
		{ "x|--password|--|y", "x --password -- y" },
		{ "x|--password|-s3cret|y", "x --password *** y" },
		{ "x|--password|-token|abc", "x --password *** ***" },
		{ "x|--ask-pass|y|--no-password|z", "x --ask-pass y --no-password z" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_harmless_names_are_shown(void **state)
{
	static const char *const shown[] = {
		"train --tokenizer=bert --max-tokens=100 --num_tokens 5 tokens.txt",
		"train --tokenizer bert --max_new_tokens 7 --eos_token_id=2 --pad-token <pad>",
		"train --bos_token=<s> --max-token 5 --loss_per_token=1 TOKEN_LIMIT=5",
		"train TOKENIZERS_PARALLELISM=false --secretary=bob --passthrough=1 --bypass=1",
		"ssh -p 8080 host -c aes",
		"docker run -p 8080:80 --user 1000:1000 img:tag@sha256:abcdef",
		"mysql -p dbname -P 3306",
		"vault --password-file /etc/x --token-path=/y --secret-name z",
		"singularity exec --pwd /work PWD=/work img",
		"kubectl get secret mine --keys=5 --key=1,2 --author=me --authority=x",
		"sort --key=2 --monkey=1 PATH=/usr/bin:/bin key=value",
		"x --key-column id --sort-key id SORT_KEY=id PRIMARY_KEY=id SSH_PUBLIC_KEY=abc KEY=a",
		"sox --lowpass 300 --compass=n get token x bearer.txt",
		"cargo test token::parse secret::open",
		"curl http://host:8080/@scope/pkg https://host/@me http://[::1]:80/@x ssh://git@host/r",
		"ls sk-learn-models-and-many-other-things AKIAfile ghp_short task-1234567890abcdef",
	};
	struct mask *mask = new_mask(NULL, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		char *args = strdup(shown[i]), *seen;
		size_t len = strlen(args) + 1;

		split(args, ' ');
		seen = masked(mask, args, len);
		assert_string_equal(seen, shown[i]);
		free(seen);
		free(args);
	}
	mask_free(mask);
}

static void test_short_options_of_known_programs(void **state)
{
	static const struct row rows[] = {
		{ "mysql|-uroot|-pSECRET|db", "mysql -uroot -p*** db" },
		{ "/usr/bin/mysqldump|-pSE CRET|db", "/usr/bin/mysqldump -p*** db" },
		{ "sshpass|-p|S|ssh|-p|22|h", "sshpass -p *** ssh -p *** h" },
		{ "sshpass|-pS|ssh|h", "sshpass -p*** ssh h" },
		{ "docker|login|-u|me|-p|S|reg", "docker login -u me -p *** reg" },
		{ "redis-cli|-a|S|ping", "redis-cli -a *** ping" },
		{ "curl|-u|me:S|-o|x", "curl -u me:*** -o x" },
		{ "curl|-ume:S|--user|me:S|--user=me:S",
		  "curl -ume:*** --user me:*** --user=me:***" },
		{ "curl|-u|me@x.org:S|-u|D\\me:S|-u|a=b c:S",
		  "curl -u me@x.org:*** -u D\\me:*** -u ***" },
		{ "curl|-u|me|x", "curl -u me x" },
		{ "curl|-b|sid=X1|u", "curl -b *** u" },
		{ "openssl|enc|-aes256|-k|X1", "openssl enc -aes256 -k ***" },
		{ "curl|-su|me:S|-sSLume:S|-fsSU|me:S",
		  "curl -su me:*** -sSLume:*** -fsSU me:***" },
		{ "curl|-ou:S|-Hu:S|-so|u:S", "curl -ou:S -Hu:S -so u:S" }, /* values of others */
		{ "mysql|-BNpS|-uapp|-hpg|db", "mysql -BNp*** -uapp -hpg db" },
		{ "ldapsearch|-LLLxw|S|-b|x", "ldapsearch -LLLxw *** -b x" },
		{ "zip|-rP|S|a.zip|b", "zip -rP *** a.zip b" },
		{ "sh|-c|curl -su me:S url; ls", "sh -c curl -su me:*** url; ls" },
		{ "sh|-c|mysql -h h -p'S T' db; curl -u me:S url",
		  "sh -c mysql -h h -p'***' db; curl -u me:*** url" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_scripts(void **state)
{
	static const struct row rows[] = {
		{ "sh|-c|curl -H \"Authorization: Bearer abc def\" https://x",
		  "sh -c curl -H \"Authorization: ***\" https://x" },
		{ "sh|-c|curl -H 'X-Api-Key: abc' https://x",
		  "sh -c curl -H 'X-Api-Key: ***' https://x" },
		{ "bash|-lc|export API_KEY=\"a b c\"; run it",
		  "bash -lc export API_KEY=\"***\"; run it" },
		{ "PGPASSWORD=x psql -h h; ls", "PGPASSWORD=*** psql -h h; ls" },
		{ "worker: idle --token abc (3 jobs)", "worker: idle --token *** (3 jobs)" },
		{ "bash|-c|PGPASSWORD=x psql -h h; ls", "bash -c PGPASSWORD=*** psql -h h; ls" },
		{ "bash|-c|TOKEN=abc;ls", "bash -c TOKEN=***;ls" },
		{ "bash|-c|TOKEN=a\\ b'c d'\"e f\" ls", "bash -c TOKEN=*** ls" },
		{ "bash|-c|TOKEN=$(cat /run/x y) ls", "bash -c TOKEN=*** ls" },
		{ "bash|-c|x --token abc --user me", "bash -c x --token *** --user me" },
		{ "bash|-c|x --token 'a b' --user me", "bash -c x --token '***' --user me" },
		{ "bash|-c|x --token\n'a b'\n--user me", "bash -c x --token '***' --user me" },
		{ "bash|-c|curl -d \"user=me&password=a b\" u",
		  "bash -c curl -d \"user=me&password=***\" u" },
		{ "bash|-c|curl -d \"password=\"'a b' u", "bash -c curl -d \"password=\"'***' u" },
		{ "bash|-c|curl -d \"{\\\"password\\\": \\\"a b\\\", \\\"n\\\": 1}\" u",
		  "bash -c curl -d \"{\\\"password\\\": \\\"***\\\", \\\"n\\\": 1}\" u" },
		{ "bash|-c|PW='a\\' x 'b c'", "bash -c PW='***'" },
		{ "bash|-c|bash -c 'curl -H \"Authorization: Bearer abc\"' ; ls",
		  "bash -c bash -c 'curl -H \"Authorization: ***' ; ls" },
		{ "bash|-c|cat <<E\npassword: a b\nuser: c\nE",
		  "bash -c cat <<E password: *** user: c E" },
		{ "bash|-c|cat <<E\npassword = a b\nuser: c\nE",
		  "bash -c cat <<E password = *** user: c E" },
		{ "bash|-c|printf 'a\\npassword=x y'", "bash -c printf 'a\\npassword=***'" },
		{ "bash|-c|\\password=x", "bash -c \\password=***" },
		{ "bash|-c|a &&TOKEN='x y' b", "bash -c a &&TOKEN='***' b" },
		{ "python3|-c|os.environ[\"TOKEN\"]=\"a b\"; main()",
		  "python3 -c os.environ[\"TOKEN\"]=\"***\"; main()" },
		{ "python3|-c|login(user='me', token='a b', n=1)",
		  "python3 -c login(user='me', token='***', n=1)" },
		{ "python3|-c|os.environ.setdefault('TOKEN', 'a b')",
		  "python3 -c os.environ.setdefault('TOKEN', '***')" },
		{ "x|{\"password\": \"a b\", \"user\": \"me\"}",
		  "x {\"password\": \"***\", \"user\": \"me\"}" },
		{ "x|{\"args\": [\"--password\", \"a b\"]}",
		  "x {\"args\": [\"--password\", \"***\"]}" },
		{ "x|{\"secrets\": [\"a b\", \"c\"]}", "x {\"secrets\": ***" },
		{ "psql|host=h password=abc dbname=d", "psql host=h password=*** dbname=d" },
		{ "psql|host=h password='a b' dbname=d", "psql host=h password='***' dbname=d" },
		{ "ssh|h|PGPASSWORD=a b", "ssh h PGPASSWORD=***" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_headers_and_urls(void **state)
{
	static const struct row rows[] = {
		{ "curl|-H|Authorization: Bearer abc|u", "curl -H Authorization: *** u" },
		{ "curl|-H|authorization:Basic abc", "curl -H authorization:***" },
		{ "curl|-H|Cookie: a=b; c=d", "curl -H Cookie: ***" },
		{ "x|Bearer|abc|d", "x Bearer *** d" },
		{ "git|-c|http.extraHeader=Authorization: Bearer abc|fetch",
		  "git -c http.extraHeader=Authorization: *** fetch" },
		{ "git|clone|https://me:abc@host/r", "git clone https://me:***@host/r" },
		{ "x|redis://:abc@host:6379/0", "x redis://:***@host:6379/0" },
		{ "x|postgres://u:p/a?s#s@h/db", "x postgres://u:***@h/db" },
		{ "x|postgres://u:p@s@h/db", "x postgres://u:***@h/db" },
		{ "x|https://0123456789abcdef0123@github.com/r", "x https://***@github.com/r" },
		{ "x|https://h/?user=me&token=abc&n=1#top",
		  "x https://h/?user=me&token=***&n=1#top" },
		{ "x|https://h/?sv=1&sig=abc%3D&sr=c", "x https://h/?sv=1&sig=***&sr=c" },
		{ "curl|-d|user=me&password=a b#c&n=1", "curl -d user=me&password=***&n=1" },
		{ "sh|-c|curl 'https://h/?key=abc' -o x", "sh -c curl 'https://h/?key=***' -o x" },
		{ "sh|-c|curl 'https://me:abc@h/' -o x", "sh -c curl 'https://me:***@h/' -o x" },
		{ "git|clone|https://ghp_abcdefghijklmnopqrst:x-oauth-basic@github.com/r",
		  "git clone https://***@github.com/r" },
		{ "git|clone|https://x-access-token:abc@github.com/r",
		  "git clone https://x-access-token:***@github.com/r" },
		{ "x|mongodb://u:p@h1:1,h2:2/", "x mongodb://u:***@h1:1,h2:2/" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

/* What stands for a secret is one, and what only looks alike is none. */
static void test_other_forms(void **state)
{
	static const struct row rows[] = {
		{ "git|clone|https://T0kenOfMine@host/r", "git clone https://***@host/r" },
		{ "git|clone|https://averylongname@host/r", "git clone https://***@host/r" },
		{ "git|clone|https://T0ken:@host/r", "git clone https://***@host/r" },
		{ "git|clone|https://ada@host/r", "git clone https://ada@host/r" },
		{ "git|clone|ssh://Git-2@host/r", "git clone ssh://Git-2@host/r" },
		{ "http|--auth|ada:X1|h/", "http --auth ada:*** h/" },
		{ "https|-A|bearer|--auth=X1|h/", "https -A bearer --auth=*** h/" },
		{ "http|-a|X1|h/", "http -a *** h/" },
		{ "smbclient|-U|ada%X1|//h/s", "smbclient -U ada%*** //h/s" },
		{ "smbclient|//h/s|--user=ada%X1", "smbclient //h/s --user=ada%***" },
		{ "smbclient|-U|ada|//h/s", "smbclient -U ada //h/s" },
		{ "wandb|login|0123abcd", "wandb login ***" },
		{ "wandb|login|--relogin|0123abcd", "wandb login --relogin ***" },
		{ "sh|-c|wandb login 0123abcd; ls x", "sh -c wandb login ***; ls x" },
		{ "sh|-c|wandb login --relogin 0123 && train --lr 0.1",
		  "sh -c wandb login --relogin *** && train --lr 0.1" },
		{ "vault|login|s.0123", "vault login ***" },
		{ "wandb|sync|run-1", "wandb sync run-1" },
		{ "curl|h/?p%61ssword=X1", "curl ***" },
		{ "curl|-d|next=%2Fin%3Fpassword%3DX1", "curl -d ***" },
		{ "sh|-c|printf 'p\\x61ssword=X1'", "sh -c printf '***'" },
		{ "curl|h/?q=a%20b&n=%2Ftmp", "curl h/?q=a%20b&n=%2Ftmp" },
		{ "date|+%d%a%F", "date +%d%a%F" },
		/* password=hunter2, user=ada */
		{ "x|cGFzc3dvcmQ9aHVudGVyMg==|y", "x *** y" },
		{ "x|--env=cGFzc3dvcmQ9aHVudGVyMg", "x --env=***" },
		{ "sh|-c|echo cGFzc3dvcmQ9aHVudGVyMg== >x", "sh -c echo *** >x" },
		{ "x|70617373776f72643d68756e74657232", "x ***" },
		/* behind what may be letters of it, or is glued to an option or a name */
		{ "x|/cGFzc3dvcmQ9aHVudGVyMg==", "x ***" },
		{ "x|-cGFzc3dvcmQ9aHVudGVyMg==", "x ***" },
		{ "x|_cGFzc3dvcmQ9aHVudGVyMg|y", "x *** y" },
		{ "x|+cGFzc3dvcmQ9aHVudGVyMg", "x ***" },
		{ "x|-ecGFzc3dvcmQ9aHVudGVyMg==|y", "x *** y" },
		{ "x|-IicGFzc3dvcmQ9aHVudGVyMg==|y", "x *** y" },
		{ "x|--datacGFzc3dvcmQ9aHVudGVyMg", "x ***" },
		{ "x|/srv/ab/cGFzc3dvcmQ9aHVudGVyMg==/f", "x ***/f" },
		{ "x|a.cGFzc3dvcmQ9aHVudGVyMg.txt", "x ***" },
		{ "x|https://h/x/cGFzc3dvcmQ9aHVudGVyMg", "x https:***" },
		{ "x|data:text/plain;base64,cGFzc3dvcmQ9aHVudGVyMg==",
		  "x data:text/plain;base64,***" },
		{ "sh|-c|echo cGFzc3dvcmQ9aHVudGVyMg==|base64 -d", "sh -c echo *** base64 -d" },
		{ "x|-pcHc9aHVudGVyMg", "x ***" },		 /* pw=hunter2 */
		{ "x|-xS2V5OmFwaV9rZXk9aHVudGVyMg==", "x ***" }, /* Key:api_key=hunter2 */
		{ "x|/eyJwYXNzIjoiaHVudGVyMiJ9", "x ***" },	 /* {"pass":"hunter2"} */
		{ "x|-aHR0cHM6Ly9tZTpodW50ZXIyQGgv", "x ***" },	 /* https://me:hunter2@h/ */
		{ "pwsh|-EncodedCommand|cABhAHMAcwB3AG8AcgBkAD0AWAAxAA==",
		  "pwsh -EncodedCommand ***" }, /* password=X1 in UTF-16 */
		{ "x|0x70617373776f72643d68756e74657232", "x ***" },
		{ "x|id-70617373776f72643d68756e74657232", "x ***" },
		{ "x|f70617373776f72643d68756e74657232", "x ***" },
		{ "x|p%2561ssword%253DX1", "x ***" },
		/* encoded twice: base64 in base64, in hexadecimal digits, and percent-encoded */
		{ "x|Y0dGemMzZHZjbVE5YUhWdWRHVnlNZz09", "x ***" },
		{ "x|6347467a63336476636d513961485675644756794d673d3d|y", "x *** y" },
		{ "x|-d%63%47%46%7a%63%33%64%76%63%6d%51%39%61%48%56%75%64%47%56%79%4d%67%3d%3d",
		  "x ***" },
		{ "x|p\\u0061ssword=X1", "x ***" },
		{ "x|dXNlcj1hZGEmaG9tZT0vdG1w", "x dXNlcj1hZGEmaG9tZT0vdG1w" },
		{ "git|show|da39a3ee5e6b4b0d3255bfef95601890afd80709",
		  "git show da39a3ee5e6b4b0d3255bfef95601890afd80709" },
		{ "x|/usr/lib/x86_64-linux-gnu/libpassword/readme",
		  "x /usr/lib/x86_64-linux-gnu/libpassword/readme" },
		{ "x|/home/ada/.cache/pip/wheels/9f/2b/passlib-secret-token+password/key",
		  "x /home/ada/.cache/pip/wheels/9f/2b/passlib-secret-token+password/key" },
		{ "x|/nix/store/6gpmqvyp3x1b5pbhnrmn8s3wr6mqz5fl-bash-5.2/bin/bash",
		  "x /nix/store/6gpmqvyp3x1b5pbhnrmn8s3wr6mqz5fl-bash-5.2/bin/bash" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_token_shapes(void **state)
{
	static const struct row rows[] = {
		{ "x|ghp_abcdefghijklmnopqrstuvwxyz0123456789", "x ***" },
		{ "x|-ghp_abcdefghijklmnopqrstuvwxyz0123456789", "x -***" },
		{ "x|AKIAIOSFODNN7EXAMPLE,y", "x ***,y" },
		{ "x|--model=sk-proj-abcdefghij0123456789", "x --model=***" },
		{ "x|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln|y", "x *** y" },
		{ "sh|-c|echo \"hf_abcdefghijklmnopqrst\" > x", "sh -c echo \"***\" > x" },
		{ "x|-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----|y",
		  "x *** y" },
		{ "x|-----BEGIN CERTIFICATE-----", "x -----BEGIN CERTIFICATE-----" },
		{ "x|-tghp_abcdefghijklmnopqrstuvwxyz0123456789", "x -t***" },
		{ "x|AGE-SECRET-KEY-1QQPQYKZ0JRHHYQ3TVWJ2FV", "x ***" },
	};

	(void)state;
	check_rows(rows, ARRAY_SIZE(rows));
}

static void test_user_patterns(void **state)
{
	const char *const patterns[] = { "^x-.*-pin$", "flavour" };
	struct mask *mask = new_mask(patterns, 2);
	static const char args[] = "p\0--x-my-PIN=1\0--x-my-pins=1\0FLAVOUR_A=2\0--flavour\0mint";
	char *seen = masked(mask, args, sizeof(args));

	(void)state;
	assert_string_equal(seen, "p --x-my-PIN=*** --x-my-pins=1 FLAVOUR_A=*** --flavour ***");
	free(seen);
	mask_free(mask);
}

static void test_bad_patterns_are_refused(void **state)
{
	const char *bad = "a(b", *all = "a*", *many[65];
	char longest[300];
	struct mask *mask = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(mask_new(&bad, 1, &mask, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the mask pattern 'a(b' is not a regular expression: "));
	assert_int_equal(mask_new(&all, 1, &mask, &err), -EINVAL);
	assert_string_equal(err.text, "the mask pattern 'a*' fits every name; write at least one "
				      "letter that must be there");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = "x";
	assert_int_equal(mask_new(many, ARRAY_SIZE(many), &mask, &err), -EINVAL);
	assert_string_equal(err.text, "65 mask patterns; at most 64 are allowed");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	many[0] = longest;
	assert_int_equal(mask_new(many, 1, &mask, &err), -EINVAL);
	assert_null(mask);
}

static void test_unsafe_characters(void **state)
{
	static const char args[] = "a\nb\0c\x1b[31m\x7f\xc2\x9b\xff\xc3\xa9\0\0d\0\0\0";
	struct mask *mask = new_mask(NULL, 0);
	char *seen = masked(mask, args, sizeof(args));
	char *open = masked(NULL, "--token\0abc\0\n", 13);

	(void)state;
	assert_string_equal(seen, "a b c?[31m???\xc3\xa9  d");
	assert_string_equal(open, "--token abc  ");
	free(seen);
	free(open);
	seen = masked(mask, "", 0);
	assert_string_equal(seen, "");
	free(seen);
	mask_free(mask);
}

static void test_cut_is_on_a_character(void **state)
{
	struct mask *mask = new_mask(NULL, 0);
	char args[1001];
	char *seen;

	(void)state;
	memset(args, 'a', sizeof(args));
	memcpy(args + 499, "\xe2\x82\xac", 3);
	args[1000] = '\0';
	seen = masked(mask, args, sizeof(args));
	assert_int_equal(strlen(seen), 499);
	free(seen);
	memcpy(args + 497, "\xe2\x82\xac\xe2\x82", 5);
	seen = masked(mask, args, sizeof(args));
	assert_int_equal(strlen(seen), 500);
	free(seen);
	mask_free(mask);
}

/* A secret that begins anywhere and goes on for ever is never seen, whatever stands before it. */
static void test_no_cut_shows_part_of_a_secret(void **state)
{
	static const char *const heads[] = { "--password=", "https://me:", "AKIA", "ghp_", "eyJ" };
	static char args[140000];
	struct mask *mask = new_mask(NULL, 0);

	(void)state;
	for (size_t h = 0; h < ARRAY_SIZE(heads); h++)
		for (size_t at = 0; at < 4200; at += at < 480 || (at > 520 && at < 4070) ? 23 : 1) {
			size_t n = strlen(heads[h]);
			char *seen;

			/* A long hidden value first, so that the far end of the window is shown. */
			memset(args, 'x', sizeof(args));
			memcpy(args, "--token=", 8);
			args[at > 9 ? at - 1 : 8] = '\0';
			memcpy(args + (at > 9 ? at : 9), heads[h], n);
			memset(args + (at > 9 ? at : 9) + n, 'Q', 100000);
			seen = masked(mask, args, sizeof(args));
			assert_null(strchr(seen, 'Q'));
			free(seen);
		}
	mask_free(mask);
}

static void test_argv(void **state)
{
	const char *const argv[] = { "x", "--token", "abc", "", "y", NULL };
	struct mask *mask = new_mask(NULL, 0);
	struct buf out = BUF_INIT;

	(void)state;
	buf_add_str(&out, "> ");
	mask_argv(mask, argv, &out);
	assert_string_equal(out.data, "> x --token ***  y");
	buf_release(&out);
	mask_free(mask);
}

/* It is there until the last owner has freed it. */
static void test_owners(void **state)
{
	const char *const patterns[] = { "fancy" }, *const argv[] = { "--fancy=abc", NULL };
	struct mask *mask = new_mask(patterns, 1), *kept = mask_ref(mask);
	struct buf out = BUF_INIT;

	(void)state;
	assert_null(mask_ref(NULL));
	assert_null(mask_free(mask));
	mask_argv(kept, argv, &out);
	assert_string_equal(out.data, "--fancy=***");
	buf_release(&out);
	mask_free(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_and_assignments),
		cmocka_unit_test(test_pwd),
		cmocka_unit_test(test_next_option_is_not_the_value),
		cmocka_unit_test(test_harmless_names_are_shown),
		cmocka_unit_test(test_short_options_of_known_programs),
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_headers_and_urls),
		cmocka_unit_test(test_other_forms),
		cmocka_unit_test(test_token_shapes),
		cmocka_unit_test(test_user_patterns),
		cmocka_unit_test(test_bad_patterns_are_refused),
		cmocka_unit_test(test_unsafe_characters),
		cmocka_unit_test(test_cut_is_on_a_character),
		cmocka_unit_test(test_no_cut_shows_part_of_a_secret),
		cmocka_unit_test(test_argv),
		cmocka_unit_test(test_owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
