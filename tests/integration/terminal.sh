# shellcheck shell=bash
# terminal.sh - a real terminal (tmux) for what wants one: runs a program in it, types, and looks.
#
#	open_terminal "'$PROCTOR' top"
#	keys j Enter
#	shows "all of it" 'command '
#	close_terminal

# Each terminal has a server of its own: one that is being ended takes no new ones.
n_terminals=0
pane() {
	tmux -S "$TMP/tmux.$n_terminals" "$@"
}

# Opens a terminal of 100 x 30 in which this runs; its exit status goes to $TMP/ended.
open_terminal() { # COMMAND
	rm -f "$TMP/ended"
	n_terminals=$((n_terminals + 1))
	pane -f /dev/null new-session -d -x 100 -y 30 "trap : INT; $1; echo \$? >'$TMP/ended'; sleep 120"
}

close_terminal() {
	pane kill-server 2>/dev/null
}

screen() {
	pane capture-pane -p
}

keys() {
	pane send-keys "$@"
}

# How often it is looked: for a minute and more, as others may take all of the machine.
LOOKS=600

# shows NAME REGEX: passes as soon as the screen has it.
shows() {
	local i
	for ((i = 0; i < LOOKS; i++)); do
		screen | grep -Eq -- "$2" && { ok "$1"; return; }
		sleep 0.1
	done
	not_ok "$1" "no '$2' on the screen:" "$(screen)"
}

hides() { # NAME REGEX: as soon as the screen has it no more
	local i
	for ((i = 0; i < LOOKS; i++)); do
		screen | grep -Eq -- "$2" || { ok "$1"; return; }
		sleep 0.1
	done
	not_ok "$1" "still '$2' on the screen:" "$(screen)"
}

ends_with() { # NAME STATUS
	local i
	for ((i = 0; i < LOOKS; i++)); do
		[ -s "$TMP/ended" ] && break
		sleep 0.1
	done
	is "$1" "$(cat "$TMP/ended" 2>/dev/null)" "$2"
}


# The row that is selected: it is shown in reverse.
selected_row() {
	pane capture-pane -e -p | grep $'\e\\[[0-9;]*7m' | sed $'s/\e\\[[0-9;]*m//g; s/ *$//'
}

# selects NAME REGEX: passes as soon as a row like this is the selected one.
selects() {
	local i
	for ((i = 0; i < LOOKS; i++)); do
		selected_row | grep -Eq -- "$2" && { ok "$1"; return; }
		sleep 0.1
	done
	not_ok "$1" "no '$2' is selected but '$(selected_row)':" "$(screen)"
}

# What a mouse says: BUTTON (0 left, 64 and 65 the wheel), COLUMN and ROW from 1. As tmux tells
# it to programs that take it for a "screen", each a character from the blank on.
mouse() {
	tell_mouse "$@"
	[ "$1" -ge 64 ] || tell_mouse 3 "$2" "$3" # a wheel is not let go of
}

tell_mouse() {
	keys -l "$(printf '\e[M%b%b%b' "\\x$(printf %x $((32 + $1)))" \
		"\\x$(printf %x $((32 + $2)))" "\\x$(printf %x $((32 + $3)))")"
}

# The same as newer terminals say it.
mouse_sgr() {
	keys -l "$(printf '\e[<%d;%d;%dM' "$1" "$2" "$3")"
	keys -l "$(printf '\e[<%d;%d;%dm' "$1" "$2" "$3")"
}

# The process that was opened in it, below the shell.
running_pid() {
	local shell
	shell=$(pane list-panes -F '#{pane_pid}')
	read -r shell <"/proc/$shell/task/$shell/children"
	echo "$shell"
}
