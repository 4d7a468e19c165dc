
# bash breaks words at = and :, which names of tools and arguments have in them.
# Where the package bash-completion does not put them together, this does.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
__toolroom_init_completion()
{
    local i part gap rest=$COMP_LINE last=-1
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        gap=${rest%%[^[:space:]]*}
        rest=${rest#"$gap"}
        rest=${rest#"$part"}
        if [[ $last -ge 0 && -z $gap && ( $part == [=:]* || ${words[last]} == *[=:] ) ]]; then
            words[last]+=$part
        else
            words+=("$part")
            ((last += 1))
        fi
    done
    cword=$last cur=${words[last]} prev=${words[last > 0 ? last - 1 : 0]}
}
fi
