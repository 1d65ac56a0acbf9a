# SPDX-License-Identifier: Apache-2.0 OR MIT
# Types a line and Tab into a zsh, and writes what it offers into a file, a word a line:
# zsh -f offered.zsh FOLDER-OF-_crosslane FILE LINE
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT=; fpath=(${(q)1} \$fpath); file=${(q)2}; : > \$file"
# Calls that only filter words into an array offer nothing.
zpty -w shell 'autoload -Uz compinit && compinit -D -u
compadd() {
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        local -a hits
        builtin compadd -O hits "$@"
        print -l -- $hits >> $file
    fi
    builtin compadd "$@"
}
finish() { exit }
comppostfuncs=(finish)
bindkey "^I" complete-word'
zpty -w -n shell "$3"$'\t'
# Its output, with errors, until it ends.
while zpty -r shell line; do print -rn -- $line; done
